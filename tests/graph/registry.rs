//! Which backends there are, in what order, and what a user may name.

use minfer::backends::builtin;
use minfer::error::Hint;
use minfer::graph::*;

fn here() -> Availability {
    Availability::Available
}

fn nowhere() -> Availability {
    Availability::Unavailable("no driver is installed".to_owned())
}

fn built(known: KnownBackend, availability: fn() -> Availability) -> BuiltBackend {
    BuiltBackend { known, is_likely: || true, availability, open: None }
}

/// A build with all but CUDA, on a machine without Metal.
fn registry() -> Registry {
    Registry::new(vec![
        built(KnownBackend::CPU, here),
        built(KnownBackend::VULKAN, here),
        built(KnownBackend::METAL, nowhere),
    ])
}

#[test]
fn the_registered_set_and_priority_order_are_pinned() {
    let rows: Vec<_> =
        KnownBackend::ALL.iter().map(|known| (known.id.0, known.name, known.priority)).collect();
    assert_eq!(rows, [(0, "cpu", 100), (1, "metal", 300), (2, "cuda", 200), (3, "vulkan", 150)]);
    let all = KnownBackend::ALL.map(|known| built(known, here)).to_vec();
    let order = Registry::new(all).by_priority();
    assert_eq!(order, [BackendId::METAL, BackendId::CUDA, BackendId::VULKAN, BackendId::CPU]);
    let device = if cfg!(target_vendor = "apple") { BackendId::METAL } else { BackendId::VULKAN };
    let in_this_build =
        if cfg!(feature = "gpu") { vec![device, BackendId::CPU] } else { vec![BackendId::CPU] };
    assert_eq!(builtin().by_priority(), in_this_build);
}

#[test]
fn equal_priorities_are_ordered_by_id() {
    let twin = |id: u8| {
        let known = KnownBackend { id: BackendId(id), name: "twin", priority: 100, ..KnownBackend::CPU };
        built(known, here)
    };
    let order = Registry::new(vec![twin(9), built(KnownBackend::CPU, here), twin(8)]).by_priority();
    assert_eq!(order, [BackendId::CPU, BackendId(8), BackendId(9)]);
}

#[test]
fn without_names_the_fence_holds_what_is_available() {
    let expected = BackendId::CPU.bit() | BackendId::VULKAN.bit();
    assert_eq!(registry().fence(None), Ok(expected));
    assert_eq!(registry().fence(Some(" , ")), Ok(expected));
}

#[test]
fn naming_removes_never_adds_and_keeps_the_cpu() {
    let expected = BackendId::CPU.bit() | BackendId::VULKAN.bit();
    assert_eq!(registry().fence(Some("VULKAN")), Ok(expected));
    assert_eq!(registry().fence(Some(" vk ,Cpu")), Ok(expected));
    assert_eq!(registry().fence(Some("cpu")), Ok(BackendId::CPU.bit()));
}

/// A build with a real Metal device and a software one for Vulkan.
fn with_software() -> Registry {
    let software = || Availability::OnlyNamed("the only device is software".to_owned());
    Registry::new(vec![
        built(KnownBackend::CPU, here),
        built(KnownBackend::METAL, here),
        built(KnownBackend::VULKAN, software),
    ])
}

#[test]
fn a_software_device_is_used_only_if_its_backend_is_named() {
    let (cpu, metal, vulkan) = (BackendId::CPU.bit(), BackendId::METAL.bit(), BackendId::VULKAN.bit());
    assert_eq!(with_software().fence(None), Ok(cpu | metal));
    assert_eq!(with_software().fence(Some("")), Ok(cpu | metal));
    assert_eq!(with_software().fence(Some("vulkan")), Ok(cpu | vulkan));
    assert_eq!(with_software().fence(Some("vulkan,metal")), Ok(cpu | metal | vulkan));
    let mut switched_off = with_software();
    switched_off.switch_off(BackendId::VULKAN, "MINFER_DISABLE_VULKAN is set");
    assert!(matches!(switched_off.fence(Some("vulkan")), Err(FenceError::NotAvailable { .. })));
}

#[test]
fn a_missing_backend_names_what_a_build_needs_for_it() {
    let cpu_only = Registry::new(vec![built(KnownBackend::CPU, here)]);
    for (name, parts) in [("metal", ["macOS", "`gpu`"]), ("vulkan", ["Linux or Windows", "`gpu`"])] {
        let text = cpu_only.fence(Some(name)).unwrap_err().to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_names_there_are() {
    let error = registry().fence(Some("cpu,rocm")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend rocm: expected one of cpu, metal, cuda, vulkan, got an unknown name"
    );
    assert!(error.hint().is_some());
}

#[test]
fn a_backend_that_the_build_lacks_is_refused_with_the_reason() {
    let error = registry().fence(Some("cuda")).unwrap_err();
    assert!(error.to_string().starts_with("backend cuda: not in this build: it needs "), "{error}");
    assert_eq!(error.hint().as_deref(), Some("this build has metal, vulkan, cpu"));
}

#[test]
fn only_a_named_backend_is_refused_for_its_absence_from_the_machine() {
    assert!(registry().fence(None).is_ok());
    let error = registry().fence(Some("metal")).unwrap_err();
    assert_eq!(error.to_string(), "backend metal: not available on this machine: no driver is installed");
}

#[test]
fn a_backend_that_is_switched_off_gives_way_to_the_next() {
    let mut registry = registry();
    registry.switch_off(BackendId::VULKAN, "MINFER_DISABLE_VULKAN is set");
    registry.switch_off(BackendId::CPU, "nothing can do without it");
    assert_eq!(registry.fence(None), Ok(BackendId::CPU.bit()));
    assert_eq!(registry.fence(Some("cpu")), Ok(BackendId::CPU.bit()));
    let error = registry.fence(Some("vulkan")).unwrap_err();
    assert!(matches!(error, FenceError::NotAvailable { .. }), "{error}");
}
