//! The fusions that the builder makes for one token on a device.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

fn qkv(params: &GraphParams, query: &dyn BuildQuery) -> bool {
    let (n_q, n_kv) = (HEAD_DIM * N_HEAD, HEAD_DIM * N_HEAD_KV);
    let product = [&matrix("q", N_EMBD, n_q), &matrix("k", N_EMBD, n_kv), &matrix("v", N_EMBD, n_kv)];
    let epilogue = QkvBiasRopeStore { n_q, bias: false, rope: rope(), store: kv_store(params, 0) };
    fuses_qkv(params, query, 0, product, &epilogue.into(), &[])
}

fn ffn(params: &GraphParams, query: &dyn BuildQuery, n_ff: usize) -> bool {
    fuses_ffn(params, query, 0, &matrix("gate", N_EMBD, n_ff), &matrix("up", N_EMBD, n_ff))
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
fn product_and_epilogue_must_go_to_one_device() {
    let policy = policy(1, 1);
    let (set, _) = device_set(Claims::like_device("gpu").without(&[OpKind::QkvBiasRopeStore]));
    assert!(!qkv(&params(1, 1), &AssignQuery { set: &set, policy: &policy }));
    let (set, _) = device_set(Claims::like_device("gpu").without_weight("k"));
    assert!(!qkv(&params(1, 1), &AssignQuery { set: &set, policy: &policy }));
}
