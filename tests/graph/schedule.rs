//! Splits, and the copies between them.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

/// A decoder of three blocks, the first two on the device.
fn offloaded() -> Executable {
    let (mut set, _) = device_set(Claims::like_device("gpu"));
    Executable::compile(decoder(params(4, 1), 3), &mut set, &policy(2, 3)).unwrap()
}

#[test]
fn a_graph_on_one_backend_is_one_split_without_copies() {
    let (mut set, _) = cpu_set();
    let executable = Executable::compile(decoder(params(4, 1), 3), &mut set, &policy(0, 3)).unwrap();
    assert_eq!(executable.splits().len(), 1);
    assert!(executable.copies().is_empty());
}

#[test]
fn splits_are_maximal_runs() {
    let executable = offloaded();
    for pair in executable.splits().windows(2) {
        assert_ne!(pair[0].backend, pair[1].backend);
        assert_eq!(pair[0].nodes.end, pair[1].nodes.start);
    }
    let lines: Vec<String> = executable.schedule().lines(executable.graph()).collect();
    insta::assert_snapshot!("splits_offloaded", lines.join("\n"));
}

#[test]
fn each_value_crosses_once_per_destination() {
    let executable = offloaded();
    let graph = executable.graph();
    let copies: Vec<String> = executable
        .copies()
        .iter()
        .map(|c| format!("{} {} -> {} before {}", graph.node(c.value).name, c.from, c.to, c.before))
        .collect();
    insta::assert_snapshot!("copies_offloaded", copies.join("\n"));
    let mut seen = std::collections::HashSet::new();
    assert!(executable.copies().iter().all(|copy| seen.insert((copy.value, copy.to))));
}

#[test]
fn splits_and_copies_are_functions_of_the_graph() {
    let (first, second) = (offloaded(), offloaded());
    assert_eq!(first.schedule(), second.schedule());
    assert_eq!(first.plan(), second.plan());
}

/// Every node on the other backend than the one before: the worst case for copies.
#[test]
fn alternating_backends_run_with_every_value_in_place() {
    let (mut set, [cpu, device]) = device_set(Claims::like_device("gpu"));
    let mut graph = decoder(params(4, 1), 2);
    for node in &mut graph.nodes {
        let touches_kv =
            ["kv", "kv_store", "attn"].iter().any(|part| node.name.ends_with(&format!(".{part}")));
        node.backend = Some(if node.id.0 % 2 == 0 && !touches_kv { BackendId::CPU } else { DEVICE });
    }
    let mut executable = Executable::compile(graph, &mut set, &policy(0, 2)).unwrap();
    let step_params = params(4, 1);
    let data = StepData::new(&step_params);
    for _ in 0..3 {
        executable.run(&mut set, &data.inputs(), &mut ()).unwrap();
    }
    let n_copies = executable.copies().len();
    assert!(n_copies > 20, "{n_copies}");
    assert_eq!(cpu.n_reads() + device.n_reads(), 3 * n_copies);
    assert_eq!(cpu.n_writes() + device.n_writes(), 3 * (n_copies + 6), "copies and six inputs");
}
