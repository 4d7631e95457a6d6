//! Steps on the arithmetic backend.

use minfer::graph::*;
use minfer::tensor::Shape;
use proptest::prelude::*;

use crate::arithmetic::Arithmetic;
use crate::common::*;

const ROW: usize = 6;
const OTHER: BackendId = BackendId(9);

fn two_backends(fail_at: Option<&str>) -> BackendSet {
    let mut set = BackendSet::new();
    set.insert(BackendId::CPU, Box::new(Arithmetic::default()));
    set.insert(OTHER, Box::new(Arithmetic::failing_at(fail_at)));
    set
}

/// What a node of the test graphs is made of: op, two earlier values, backend, whether it is an output.
type Step = (u8, usize, usize, bool, bool);

/// A graph of these steps over two look-ups, and its outputs computed value by value without any plan.
fn graph_and_answers(steps: &[Step], ids: &[i32]) -> (Graph, Vec<Vec<f32>>) {
    let n_tokens = ids.len();
    let mut g = GraphBuilder::new(params(n_tokens, n_tokens));
    let input = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[input], &[&matrix("w", ROW, 9)]);
    let looked_up: Vec<f32> =
        ids.iter().flat_map(|&id| (0..ROW).map(move |i| id as f32 + i as f32 / 8.0)).collect();
    let mut values = vec![(x, looked_up)];
    let mut backends = vec![None, None];
    let mut answers = Vec::new();
    let silu = |x: f32| x / (1.0 + (-x).exp());
    for (index, &(op, a, b, on_other, is_output)) in steps.iter().enumerate() {
        let (a, b) = (&values[a % values.len()], &values[b % values.len()]);
        let name = format!("step{index}");
        let pair = |f: &dyn Fn(f32, f32) -> f32| a.1.iter().zip(&b.1).map(|(&a, &b)| f(a, b)).collect();
        let value: (NodeId, Vec<f32>) = match op % 5 {
            0 => (g.node(name, Add, &[a.0, b.0], &[]), pair(&|a, b| a + b)),
            1 => (g.node(name, Mul, &[a.0, b.0], &[]), pair(&|a, b| a * b)),
            2 => (g.node(name, Scale { factor: 0.5 }, &[a.0], &[]), pair(&|a, _| a * 0.5)),
            3 => (g.node(name, Silu, &[a.0], &[]), pair(&|a, _| silu(a))),
            _ => {
                let shape = Shape::d2(ROW, n_tokens);
                (g.node(name, Reshape { shape }, &[a.0], &[]), a.1.clone())
            }
        };
        backends.push((op % 5 != 4).then_some(if on_other { OTHER } else { BackendId::CPU }));
        if is_output || index + 1 == steps.len() {
            g.output(value.0);
            answers.push(value.1.clone());
        }
        values.push(value);
    }
    let mut graph = g.finish().unwrap();
    for (node, backend) in graph.nodes.iter_mut().zip(backends) {
        node.backend = backend;
    }
    (graph, answers)
}

fn outputs(executable: &Executable, set: &mut BackendSet) -> Vec<Vec<f32>> {
    let read = |index| {
        let mut out = Vec::new();
        executable.read_output(set, index, &mut out).unwrap();
        out
    };
    (0..executable.graph().outputs.len()).map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Liveness, in-place results, aliases, fusion, splits and copies change nothing about what is computed.
    #[test]
    fn any_graph_on_any_mix_of_backends_computes_what_it_says(
        steps in prop::collection::vec(any::<Step>(), 1..30),
    ) {
        let ids = [3, 1, 4];
        let (graph, answers) = graph_and_answers(&steps, &ids);
        let mut set = two_backends(None);
        let mut executable = Executable::compile(graph, &mut set, &Policy::cpu_only(0)).unwrap();
        for _ in 0..2 {
            let inputs = Inputs { token_ids: &ids, ..Inputs::default() };
            executable.run(&mut set, &inputs, &mut ()).unwrap();
            let bits = |v: &[Vec<f32>]| -> Vec<Vec<u32>> {
                v.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
            };
            prop_assert_eq!(bits(&outputs(&executable, &mut set)), bits(&answers));
        }
    }
}

/// `Silu`, `Mul`, `Scale` in a row; the middle one on the other backend.
fn three_steps() -> Graph {
    let steps = [(3, 0, 0, false, false), (0, 1, 0, true, false), (2, 2, 0, false, true)];
    graph_and_answers(&steps, &[1, 2]).0
}

#[derive(Default)]
struct Log {
    lines: Vec<String>,
    read: Vec<f32>,
}

impl Observer for Log {
    fn split_start(&mut self, split: &Split) {
        self.lines.push(format!("split {} on {}", split.id, split.backend));
    }

    fn split_end(&mut self, split: &Split) {
        self.lines.push(format!("end {}", split.id));
    }

    fn copied(&mut self, copy: &ValueCopy) {
        self.lines.push(format!("copied {} {} -> {}: {} bytes", copy.value, copy.from, copy.to, copy.bytes));
    }

    fn node_start(&mut self, node: &Node, sources: &mut NodeSources<'_>) {
        let mut bytes = Vec::new();
        for (index, operand) in sources.operands().iter().enumerate() {
            assert!(sources.read(index, &mut bytes).unwrap());
            assert_eq!(bytes.len(), operand.shape.n_elems() * 4);
        }
        assert!(!sources.read(sources.operands().len(), &mut bytes).unwrap());
        self.lines.push(node.name.clone());
    }

    fn node_end(&mut self, _: &Node, value: &mut NodeValue<'_>) {
        assert!(value.read_f32(&mut self.read).unwrap());
        self.lines.push(format!("= {:?} {}", value.operand().shape, self.read[0]));
    }
}

#[test]
fn an_observer_sees_splits_copies_and_values() {
    let mut set = two_backends(None);
    let mut executable = Executable::compile(three_steps(), &mut set, &Policy::cpu_only(0)).unwrap();
    let mut log = Log::default();
    executable.run(&mut set, &Inputs { token_ids: &[1, 2], ..Inputs::default() }, &mut log).unwrap();
    insta::assert_snapshot!("observer", log.lines.join("\n"));
}

#[test]
fn an_error_ends_the_step_and_names_the_node() {
    let mut set = two_backends(Some("step1"));
    let mut executable = Executable::compile(three_steps(), &mut set, &Policy::cpu_only(0)).unwrap();
    let mut log = Log::default();
    let inputs = Inputs { token_ids: &[1, 2], ..Inputs::default() };
    let error = executable.run(&mut set, &inputs, &mut log).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node step1 (Add): backend arithmetic: cannot allocate 5 bytes for scratch"
    );
    assert_eq!(log.lines.last().map(String::as_str), Some("step1"), "nothing runs afterwards");
}

#[test]
fn input_data_of_the_wrong_length_is_refused() {
    let mut set = two_backends(None);
    let mut executable = Executable::compile(three_steps(), &mut set, &Policy::cpu_only(0)).unwrap();
    let inputs = Inputs { token_ids: &[1, 2, 3], ..Inputs::default() };
    let error = executable.run(&mut set, &inputs, &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "node token_ids (Input): elements: expected 2, got 3");
    let error = executable.read_output(&mut set, 1, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "output 1: expected less than 1");
}

#[test]
fn inputs_aliases_and_orphans_do_not_run() {
    let (mut set, counters) = cpu_set();
    let step_params = params(4, 1);
    let mut executable = Executable::compile(decoder(step_params, 1), &mut set, &policy(0, 1)).unwrap();
    let data = StepData::new(&step_params);
    executable.run(&mut set, &data.inputs(), &mut ()).unwrap();
    let ran = counters.take_nodes();
    let executed: Vec<String> =
        executable.liveness().executed(executable.graph()).map(|node| node.name.clone()).collect();
    assert_eq!(ran, executed);
    assert!(!ran.iter().any(|name| name == "token_ids" || name == "blk.0.ffn_act"));
}

/// A chunk of a prompt needs no logits: only what writes keys and values runs.
#[test]
fn without_outputs_only_what_writes_keys_and_values_runs() {
    let mut graph = decoder(params(4, 1), 1);
    graph.outputs.clear();
    let (mut set, _) = cpu_set();
    let executable = Executable::compile(graph, &mut set, &policy(0, 1)).unwrap();
    let census = executable.census();
    assert_eq!(census.count(OpKind::KvcacheStore, Role::Executed), 1);
    assert_eq!(census.count(OpKind::MatMul, Role::Executed), 2, "keys and values");
    assert_eq!(census.count(OpKind::Attn, Role::Orphan), 1);
}
