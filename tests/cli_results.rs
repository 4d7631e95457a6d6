//! What the commands print, against references made by others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use program::{json, minfer, model, reference_json, stderr, stdout, tiny};
use serde_json::Value;

/// A model of f32 weights, so that the reference can be met closely.
const EXACT: &str = "qwen2-yarn-f32";

/// The reference of the prompt called `text`.
fn expected() -> Value {
    reference_json("tiny/expected.json")[EXACT]["prompts"][0].clone()
}

fn ids_argument(ids: &Value) -> String {
    let ids: Vec<String> = ids.as_array().unwrap().iter().map(Value::to_string).collect();
    ids.join(",")
}

#[test]
fn tokenize_prints_the_ids_of_the_reference() {
    let expected = expected();
    let text = expected["text"].as_str().unwrap();
    let output = program::with_stdin(minfer().arg("tokenize").arg(model()).arg("--json"), text.as_bytes());
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), expected["ids"]);
    let special = ["-p", "<|im_end|>", "--json"];
    let plain = json(minfer().arg("tokenize").arg(model()).args(special));
    let parsed = json(minfer().arg("tokenize").arg(model()).args(special).arg("--parse-special"));
    assert!(plain.as_array().unwrap().len() > 1);
    assert_eq!(parsed.as_array().unwrap().len(), 1);
}

#[test]
fn the_begin_token_is_added_where_the_model_wants_it() {
    let with = |flag: &[&str]| {
        json(
            minfer().arg("tokenize").arg(tiny("llama-untied-f32-bos")).args(["-p", "a", "--json"]).args(flag),
        )
    };
    let (plain, added) = (with(&[]), with(&["--add-special"]));
    assert_eq!(plain.as_array().unwrap()[..], added.as_array().unwrap()[1..]);
}

#[test]
fn logits_agree_with_the_reference_at_every_position() {
    let expected = expected();
    let ids = ids_argument(&expected["ids"]);
    let mut command = minfer();
    command.arg("logits").arg(tiny(EXACT)).args([
        "--ids",
        &ids,
        "--all-positions",
        "--top",
        "3",
        "--kv",
        "f32",
        "--json",
    ]);
    let positions = json(&mut command)["positions"].clone();
    let positions = positions.as_array().unwrap();
    let best = expected["argmax_logprob_per_position"].as_array().unwrap();
    assert_eq!(positions.len(), best.len());
    for (position, log_prob) in positions.iter().zip(best) {
        let got = position["top"][0][1].as_f64().unwrap();
        assert!((got - log_prob.as_f64().unwrap()).abs() < 1e-3, "{position} against {log_prob}");
    }
    let last = json(
        minfer().arg("logits").arg(tiny(EXACT)).args(["--ids", &ids, "--top", "3", "--kv", "f32", "--json"]),
    );
    assert_eq!(last["positions"].as_array().unwrap().len(), 1);
    assert_eq!(last["positions"][0]["position"], positions.len() - 1);
}

#[test]
fn greedy_text_follows_the_reference() {
    let expected = expected();
    let text = expected["text"].as_str().unwrap();
    let run = |extra: &[&str]| {
        let mut command = minfer();
        command
            .arg("run")
            .arg(tiny(EXACT))
            .args(["--raw", "--temp", "0", "-n", "20", "--json", "-p", text])
            .args(extra);
        json(&mut command)
    };
    let answer = run(&[]);
    assert_eq!(answer["prompt_ids"], expected["ids"]);
    let got = answer["ids"].as_array().unwrap();
    assert_eq!(got[..], expected["greedy32"].as_array().unwrap()[..got.len()]);
    assert_eq!(answer["timings"]["predicted_n"], got.len());
    for same in [&["-t", "1"][..], &["-t", "7"], &["-t", "64"], &["--no-mmap"], &["-c", "200"]] {
        assert_eq!(run(same)["ids"], answer["ids"], "{same:?}");
    }
}

#[test]
fn a_stop_text_ends_the_answer_before_it() {
    let run = |extra: &[&str]| {
        json(
            minfer().arg("run").arg(model()).args(["hello", "--temp", "0", "-n", "24", "--json"]).args(extra),
        )
    };
    let whole = run(&[])["text"].as_str().unwrap().to_string();
    let stop: String = whole.chars().skip(5).take(3).collect();
    let stopped = run(&["--stop", &stop]);
    assert_eq!(stopped["text"].as_str().unwrap(), whole.split(&stop).next().unwrap());
    assert_eq!(stopped["finish_reason"], "stop");
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let run = |seed: &str| {
        json(minfer().arg("run").arg(model()).args(["hello", "-n", "16", "--json", "--seed", seed]))
    };
    assert_eq!(run("5")["ids"], run("5")["ids"]);
    assert_ne!(run("5")["ids"], run("6")["ids"]);
    assert_ne!(run("-1")["seed"], run("-1")["seed"]);
}

#[test]
fn the_chat_template_of_a_file_replaces_the_models() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jinja");
    std::fs::write(&path, "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}").unwrap();
    let mut command = minfer();
    command.arg("run").arg(model()).args(["hey", "--system", "be brief", "-n", "1", "--json"]);
    let ids = json(command.arg("--chat-template-file").arg(&path))["prompt_ids"].clone();
    let expected =
        json(minfer().arg("tokenize").arg(model()).args(["-p", "[system]be brief[user]hey", "--json"]));
    assert_eq!(ids, expected);
}

#[test]
fn info_shows_metadata_types_and_tensors() {
    let text = stdout(minfer().arg("info").arg(model()).arg("--tensors"));
    for part in ["general.architecture", "qwen2", "Q4_K", "blk.0.attn_q.weight", "token_embd.weight"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let document = json(minfer().arg("info").arg(model()).arg("--json"));
    assert_eq!(document["size"], std::fs::metadata(model()).unwrap().len());
    assert!(document["tensors"].as_array().unwrap().len() > 10);
}

#[test]
fn the_graph_is_printed_in_every_format() {
    let graph = |args: &[&str]| stdout(minfer().arg("graph").arg(model()).args(args));
    assert!(graph(&[]).contains(" = MatMul"), "{}", graph(&[]));
    assert!(graph(&["--format", "dot"]).starts_with("digraph"));
    let census = graph(&["--prefill", "8", "--format", "census"]);
    assert!(census.contains("op SwiGLU backend CPU x1"), "{census}");
    let document: Value = serde_json::from_str(&graph(&["--format", "json", "--decode"])).unwrap();
    assert!(!document["nodes"].as_array().unwrap().is_empty());
}

#[test]
fn graphs_of_a_run_can_be_traced_profiled_and_dumped() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let mut command = minfer();
    command.arg("run").arg(model()).args(["hi", "-n", "3", "--temp", "0"]);
    command.arg("--dump-graph").arg(file("g.dot")).arg("--dump-graph-json").arg(file("g.json"));
    command
        .env("MINFER_GRAPH_TRACE", "1")
        .env("MINFER_OP_PROFILE", "1")
        .env("MINFER_TRACE", file("trace.json"));
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("op SwiGLU backend CPU x1"), "{text}");
    assert!(text.contains("split 0 backend CPU"), "{text}");
    assert!(text.contains("graphs built: 2"), "one for the prompt, one for the tokens: {text}");
    assert!(text.lines().any(|line| line.starts_with("MatMul") && line.ends_with('%')), "{text}");
    let events: Value = serde_json::from_slice(&std::fs::read(file("trace.json")).unwrap()).unwrap();
    let event = &events.as_array().unwrap()[0];
    assert!(event["ph"] == "X" && event["dur"].is_number() && event["args"]["op"].is_string(), "{event}");
    assert!(std::fs::read_to_string(file("g.dot")).unwrap().starts_with("digraph"));
    assert!(serde_json::from_slice::<Value>(&std::fs::read(file("g.json")).unwrap()).is_ok());
}

#[test]
fn perplexity_of_a_uniform_guess_is_about_the_vocabulary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.txt");
    std::fs::write(&path, "The quick brown fox jumps over the lazy dog, again and again. ".repeat(60))
        .unwrap();
    let mut command = minfer();
    command.arg("perplexity").arg(model()).args(["--json", "--chunks", "2", "-f"]).arg(&path);
    let document = json(&mut command);
    assert_eq!(document["n_chunks"], 2);
    // Random weights know nothing: no better than half of uniform, whatever they prefer.
    assert!(document["ppl"].as_f64().unwrap() > 234.0, "{document}");
    let short = minfer()
        .arg("perplexity")
        .arg(model())
        .arg("-f")
        .arg(model().with_file_name("none.txt"))
        .output()
        .unwrap();
    assert_eq!(short.status.code(), Some(1));
}

#[test]
fn keys_and_values_in_blocks_are_a_choice_where_the_heads_allow_it() {
    let probe = |name: &str, kv: &[&str]| {
        let mut command = minfer();
        command.arg("logits").arg(tiny(name)).args(["--ids", "1,2,3,4,5,6", "--top", "1", "--json"]).args(kv);
        command
    };
    let top = |kv: &[&str]| {
        let top = &json(&mut probe("llama-linear-f32", kv))["positions"][0]["top"][0];
        (top[0].clone(), top[1].as_f64().unwrap())
    };
    let (exact, blocks) = (top(&["--kv", "f32"]), top(&["--kv", "q8_0"]));
    assert_eq!(exact.0, blocks.0);
    assert_ne!(exact.1, blocks.1, "they are rounded");
    assert!((exact.1 - blocks.1).abs() < 0.1, "{} {}", exact.1, blocks.1);
    assert_eq!(top(&["--cache-type", "q8_0"]), blocks);
    let refused = probe(EXACT, &["--kv", "q8_0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("head_dim: expected a multiple of 32, got 16"), "{message}");
}

#[test]
fn bench_prints_one_object_per_test() {
    let mut command = minfer();
    command.arg("bench").arg(model()).args(["-p", "16,32", "-n", "4", "-d", "0,8", "-r", "2", "-o", "json"]);
    let rows = json(&mut command);
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["pp16", "pp32", "tg4", "pp16 @ d8", "pp32 @ d8", "tg4 @ d8"]);
    assert_eq!(rows[0]["samples_ns"].as_array().unwrap().len(), 2);
    assert!(rows[0]["avg_ts"].as_f64().unwrap() > 0.0);
    assert_eq!((&rows[0]["type_k"], &rows[0]["type_v"]), (&"f16".into(), &"f16".into()));
    let csv = stdout(minfer().arg("bench").arg(model()).args(["-p", "8", "-n", "0", "-r", "1", "-o", "csv"]));
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [columns[0]; 2], "{csv}");
}

#[test]
fn doctor_lists_backends_and_variables() {
    let report = stdout(minfer().arg("doctor").env("MINFER_ISA", "scalar"));
    for part in ["scalar (MINFER_ISA is set", "CPU      available", "CUDA     not in this build"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let variables = stdout(minfer().args(["doctor", "--vars"]));
    assert!(variables.contains("MINFER_MODELS") && variables.contains("HF_TOKEN"));
}

#[test]
fn a_backend_is_verified_against_another_and_the_table_says_so() {
    let text = stdout(minfer().arg("verify").arg(model()).args(["--backend", "cpu", "-n", "2"]));
    for part in ["CPU (", "MatMul         Q4_K", "Attn           F16", "relative", "with the same token"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("FAIL"), "{text}");
}

#[test]
fn a_bench_says_what_ran_and_counts_the_work_of_a_device() {
    let mut command = minfer();
    command.arg("bench").arg(model()).args([
        "-p",
        "0",
        "-n",
        "2",
        "-r",
        "1",
        "-o",
        "json",
        "--backend",
        "cpu",
    ]);
    let rows = json(&mut command);
    assert_eq!((&rows[0]["backends"], &rows[0]["device"]), (&"CPU".into(), &"".into()));
    assert_eq!(rows[0]["work_per_token"]["dispatches"], 0.0);
}

#[test]
fn layers_for_a_device_that_is_not_there_are_a_warning() {
    let mut command = minfer();
    command.arg("run").arg(model()).args(["hi", "-n", "1", "--gpu-layers", "3", "--backend", "cpu"]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("warning: the CPU runs all layers, as there is no device"),
        "{}",
        stderr(&output)
    );
}
