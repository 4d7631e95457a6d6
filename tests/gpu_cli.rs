//! The program with a GPU, as users meet it.
#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use program::{json, minfer, model, stderr, stdout, tiny};

/// The GPU backend of this build, as users name it.
const GPU: &str = if cfg!(target_vendor = "apple") { "metal" } else { "vulkan" };

#[test]
fn verify_passes_on_every_architecture() {
    for name in ["wide-qwen2-q4_k_m", "wide-qwen3-iq4_xs", "llama-ropefreqs-f32", "qwen2-yarn-f32"] {
        let text = stdout(minfer().arg("verify").arg(tiny(name)).args(["--backend", GPU, "-n", "2"]));
        assert!(text.contains("logits") && !text.contains("FAIL"), "{name}: {text}");
        assert!(!text.contains("not compared"), "{name}: {text}");
    }
}

#[test]
fn bench_and_graph_say_what_the_gpu_does() {
    let args = ["--backend", GPU, "-p", "0", "-n", "2", "-r", "1", "-o", "json"];
    let report = json(minfer().arg("bench").arg(model()).args(args));
    let row = &report[0];
    assert_ne!(row["backends"], "CPU", "{row}");
    // At most eight kernels per block, besides embedding, final norm and head.
    assert_eq!(row["work_per_token"]["submissions"], 1.0, "{row}");
    assert!(row["work_per_token"]["dispatches"].as_f64().unwrap() <= 2.0 * 8.0 + 3.0, "{row}");
    let census =
        stdout(minfer().arg("graph").arg(model()).args(["--backend", GPU, "--decode", "--format", "census"]));
    assert!(census.contains("FusedQKV") && !census.contains("backend CPU"), "{census}");
    let mixed = ["--backend", GPU, "--gpu-layers", "1", "--format", "census"];
    let census = stdout(minfer().arg("graph").arg(tiny("qwen2-tied-q4_0")).args(mixed));
    assert!(census.contains("backend CPU"), "{census}");
}

#[test]
fn the_cpu_is_used_alone_where_the_gpu_is_fenced_off_or_gets_no_layers() {
    for args in [&["--backend", "cpu"][..], &["--gpu-layers", "0"]] {
        let text = stdout(minfer().arg("graph").arg(model()).args(args).args(["--format", "census"]));
        assert!(
            text.contains("backend CPU") && !text.to_lowercase().contains(&format!("backend {GPU}")),
            "{text}"
        );
    }
}

#[test]
fn a_lost_gpu_ends_the_program_with_one_message() {
    let run = ["--backend", GPU, "--temp", "0", "-n", "20", "--raw", "-p", "hello"];
    let output = minfer().arg("run").arg(model()).args(run).env("MINFER_GPU_FAULT", "3").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert_eq!(text.matches("the device was lost").count(), 1, "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn profiles_name_the_ops_of_the_gpu() {
    let run = ["--backend", GPU, "--temp", "0", "-n", "3", "--raw", "-p", "hello"];
    let output = minfer().arg("run").arg(model()).args(run).env("MINFER_OP_PROFILE", "1").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("FusedFFN") && text.contains("Attn"), "{text}");
}
