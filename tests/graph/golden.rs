//! What the stages print. A change of these files is a change of the planner.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

fn prefill() -> Executable {
    let (mut set, _) = cpu_set();
    Executable::compile(decoder(params(4, 1), 2), &mut set, &policy(0, 2)).unwrap()
}

#[test]
fn a_prefill_graph_as_text() {
    insta::assert_snapshot!("prefill_text", prefill().graph().to_text());
}

#[test]
fn a_census_has_a_line_per_op_and_backend() {
    let census = prefill().census();
    insta::assert_snapshot!("prefill_census", census.to_string());
    assert_eq!(census.count(OpKind::SwiGLU, Role::Executed), 2);
    assert_eq!(census.count(OpKind::Silu, Role::Orphan), 2);
}

#[test]
fn a_graph_on_two_backends_as_dot() {
    let (mut set, _) = device_set(Claims::like_device("gpu"));
    let executable = Executable::compile(decoder(params(1, 1), 2), &mut set, &policy(1, 2)).unwrap();
    insta::assert_snapshot!("offloaded_dot", executable.graph().to_dot());
}

#[test]
fn json_lists_every_node_with_its_role() {
    let executable = prefill();
    let document: serde_json::Value = serde_json::from_str(&executable.to_json()).unwrap();
    let nodes = document["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), executable.graph().nodes.len());
    let find = |name: &str| nodes.iter().find(|node| node["name"] == name).unwrap();
    insta::assert_snapshot!("json_node", serde_json::to_string_pretty(find("blk.0.attn_q")).unwrap());
    assert_eq!(find("blk.0.ffn_act")["role"], "orphan");
    assert_eq!(find("blk.0.ffn_gated")["op"], "SwiGLU");
    assert_eq!(find("token_ids")["role"], "input");
    let splits = document["schedule"]["splits"].as_array().unwrap();
    let executed = nodes.iter().filter(|node| node["role"] == "executed").count();
    assert_eq!(splits.iter().map(|split| split["nodes"].as_array().unwrap().len()).sum::<usize>(), executed);
    assert!(executable.graph().to_json().contains("\"census\""));
}
