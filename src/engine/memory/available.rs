//! How much memory the system can give.

use std::fs;
use std::path::Path;

/// Memory in bytes that the system can give without swapping and that this process's control groups allow, where the
/// system says so.
pub fn available_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let of_system = line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)?;
    let own_group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = own_group.lines().filter_map(|line| match line.splitn(3, ':').collect::<Vec<_>>()[..] {
        [_, "", path] => room(Path::new("/sys/fs/cgroup"), path, &VERSION_2),
        [_, controllers, path] if controllers.split(',').any(|name| name == "memory") => {
            room(Path::new("/sys/fs/cgroup/memory"), path, &VERSION_1)
        }
        _ => None,
    });
    Some(of_groups.fold(of_system, usize::min))
}

/// The files of a control group, and the fields of `memory.stat` that count pages of files, which make room when needed.
struct Layout {
    limit: &'static str,
    used: &'static str,
    files: [&'static str; 2],
}

const VERSION_2: Layout =
    Layout { limit: "memory.max", used: "memory.current", files: ["inactive_file", "active_file"] };
const VERSION_1: Layout = Layout {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};

/// What the group at `path` below `root` and the groups around it leave; `None` if none of them has a limit.
fn room(root: &Path, path: &str, layout: &Layout) -> Option<usize> {
    let own = root.join(path.trim_start_matches('/'));
    own.ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(|group| room_in(group, layout))
        .min()
}

fn room_in(group: &Path, layout: &Layout) -> Option<usize> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<usize>().ok();
    let (limit, used) = (number(layout.limit)?, number(layout.used)?);
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let of_files =
        stat.lines().filter_map(|line| line.split_once(' ')).filter(|(name, _)| layout.files.contains(name));
    let reclaimable: usize = of_files.filter_map(|(_, bytes)| bytes.parse::<usize>().ok()).sum();
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).expect("a folder");
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).expect("a file"));
    }

    #[test]
    fn the_tightest_group_counts_and_cached_files_make_room() {
        let root = tempfile::tempdir().expect("a folder");
        write(&root.path().join("a"), &[("memory.max", "1000\n"), ("memory.current", "600\n")]);
        let own =
            [("memory.max", "max\n"), ("memory.current", "500\n"), ("memory.stat", "inactive_file 100\n")];
        write(&root.path().join("a/b"), &own);
        assert_eq!(room(root.path(), "/a/b", &VERSION_2), Some(400));
        fs::write(root.path().join("a/memory.stat"), "anon 1\ninactive_file 100\nactive_file 50\n")
            .expect("a file");
        assert_eq!(room(root.path(), "/a/b", &VERSION_2), Some(550));
        assert_eq!(room(root.path(), "/none", &VERSION_2), None);
    }

    #[test]
    fn a_group_beyond_its_limit_leaves_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        let files = [("memory.limit_in_bytes", "1000"), ("memory.usage_in_bytes", "1200")];
        write(root.path(), &files);
        assert_eq!(room(root.path(), "/", &VERSION_1), Some(0));
    }
}
