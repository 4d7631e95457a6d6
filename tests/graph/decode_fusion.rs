//! The fusions that the builder makes for one token on a device.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

const NORM: Option<RmsNorm> = Some(RmsNorm { eps: 1e-6 });

fn qkv(params: &GraphParams, query: &dyn BuildQuery) -> bool {
    let (n_q, n_kv) = (HEAD_DIM * N_HEAD, HEAD_DIM * N_HEAD_KV);
    let norm = vector("norm", N_EMBD);
    let matrices = [&matrix("q", N_EMBD, n_q), &matrix("k", N_EMBD, n_kv), &matrix("v", N_EMBD, n_kv)];
    let [q, k, v] = matrices;
    let product = Candidate { op: &FusedQKV { norm: NORM }.into(), weights: &[&norm, q, k, v] };
    let epilogue = QkvBiasRopeStore { n_q, bias: false, rope: rope(), store: kv_store(params, 0) };
    let epilogue = Candidate { op: &epilogue.into(), weights: &[] };
    fuses_qkv(params, query, 0, product, epilogue, &attn().into())
}

fn ffn(params: &GraphParams, query: &dyn BuildQuery, n_ff: usize) -> bool {
    let (norm, gate, up) = (vector("norm", N_EMBD), matrix("gate", N_EMBD, n_ff), matrix("up", N_EMBD, n_ff));
    let product = Candidate { op: &FusedFFN { norm: NORM }.into(), weights: &[&norm, &gate, &up] };
    fuses_ffn(params, query, 0, product)
}

#[test]
fn the_builder_fuses_one_token_on_a_device_that_has_the_kernels() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let policy = policy(1, 1);
    let query = AssignQuery { set: &set, policy: &policy };
    assert!(qkv(&params(1, 1), &query));
    assert!(ffn(&params(1, 1), &query, MAX_FUSED_FF));
    assert!(!ffn(&params(1, 1), &query, MAX_FUSED_FF + 1));
    assert!(!qkv(&params(2, 1), &query));
    assert!(!ffn(&params(2, 1), &query, N_FF));
}

#[test]
fn each_fusion_has_its_own_switch() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let policy = policy(1, 1);
    let query = AssignQuery { set: &set, policy: &policy };
    let mut no_qkv = params(1, 1);
    no_qkv.cparams.fuse_qkv = false;
    assert_eq!((qkv(&no_qkv, &query), ffn(&no_qkv, &query, N_FF)), (false, true));
    let mut no_ffn = params(1, 1);
    no_ffn.cparams.fuse_ffn = false;
    assert_eq!((qkv(&no_ffn, &query), ffn(&no_ffn, &query, N_FF)), (true, false));
}

#[test]
fn the_cpu_never_gets_a_builder_fusion() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let cpu = policy(0, 1);
    let query = AssignQuery { set: &set, policy: &cpu };
    assert!(!qkv(&params(1, 1), &query));
    assert!(!qkv(&params(1, 1), &NoDevice));
    assert!(!ffn(&params(1, 1), &NoDevice, N_FF));
}

#[test]
fn product_epilogue_and_attention_must_go_to_one_device() {
    let policy = policy(1, 1);
    for lacking in [
        Claims::like_device("gpu").without(&[OpKind::QkvBiasRopeStore]),
        Claims::like_device("gpu").without(&[OpKind::Attn]),
        Claims::like_device("gpu").without_weight("k"),
        Claims::like_device("gpu").without_weight("norm"),
    ] {
        let (set, _) = device_set(lacking.clone());
        assert!(!qkv(&params(1, 1), &AssignQuery { set: &set, policy: &policy }), "{lacking:?}");
    }
}

/// `y = op(x)` with these weights, or the rule that they break.
fn inferred(op: impl Into<Op>, weights: &[&WeightRef]) -> Result<minfer::tensor::Shape, String> {
    let mut g = GraphBuilder::new(params(1, 1));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("embd", 8, 9)]);
    let y = g.node("y", op, &[x], weights);
    let shape = g.spec(y).shape;
    g.output(y);
    g.finish().map(|_| shape).map_err(|error| error.to_string())
}

#[test]
fn a_fused_norm_comes_first_in_the_weights() {
    let (norm, long) = (vector("norm", 8), vector("long", 9));
    let (a, b, c) = (matrix("a", 8, 4), matrix("b", 8, 4), matrix("c", 8, 6));
    let qkv = |norm| FusedQKV { norm };
    assert_eq!(inferred(qkv(NORM), &[&norm, &a, &b, &c]), Ok(minfer::tensor::Shape::d2(14, 1)));
    assert_eq!(inferred(qkv(None), &[&a, &b, &c]), Ok(minfer::tensor::Shape::d2(14, 1)));
    let ffn = |norm| FusedFFN { norm };
    assert_eq!(inferred(ffn(NORM), &[&norm, &a, &b]), Ok(minfer::tensor::Shape::d2(8, 1)));
    let refused = [
        (inferred(qkv(NORM), &[&a, &b, &c]), "number of weights: expected 4, got 3"),
        (inferred(qkv(NORM), &[&long, &a, &b, &c]), "shape of weight long: expected [8], got [9]"),
        (inferred(ffn(None), &[&norm, &a, &b]), "number of weights: expected 2, got 3"),
        (inferred(ffn(NORM), &[&norm, &a, &c]), "shape of weight c: expected [8, 4], got [8, 6]"),
    ];
    for (result, rule) in refused {
        let message = result.unwrap_err();
        assert!(message.contains(rule), "{message}");
    }
}
