//! Whole graphs as text, one layer deep, and as they leave the compiler on null backends.

use super::{File, SMALL, Sizes, build, count, params};
use crate::backends::null::{Claims, NullBackend};
use crate::graph::{
    AssignQuery, BackendId, BackendSet, Executable, GraphParams, Liveness, OpKind, Policy, Role,
};

const ONE_LAYER: Sizes = Sizes { n_layer: 1, ..SMALL };

/// Compiles for a null CPU and a null device that takes all blocks.
fn compile(file: &File, mut params: GraphParams) -> Executable {
    let model = file.model();
    let n_layer = model.hparams.n_layer;
    let mut set = BackendSet::new();
    set.insert(BackendId::CPU, Box::new(NullBackend::new(Claims::like_cpu("CPU"))));
    set.insert(BackendId::VULKAN, Box::new(NullBackend::new(Claims::like_device("Vulkan"))));
    let fence = BackendId::CPU.bit() | BackendId::VULKAN.bit();
    let order = vec![BackendId::VULKAN, BackendId::CPU];
    let policy = Policy { order, fence, gpu_layers: n_layer, n_layer };
    (params.cparams.gpu, params.cparams.gpu_layers, params.cparams.backends) = (true, n_layer, fence);
    let query = AssignQuery { set: &set, policy: &policy };
    let graph = model.build(&params, &query).expect("the graph is well-formed");
    Executable::compile(graph, &mut set, &policy).expect("it compiles")
}

#[test]
fn prefill_graphs_have_this_text() {
    for arch in ["llama", "qwen2", "qwen3"] {
        let mut file = File::new(arch, ONE_LAYER);
        file.vector("rope_freqs.weight", 2);
        insta::assert_snapshot!(format!("{arch}_prefill"), build(&file.model(), &params(7, 2)).to_text());
    }
}

#[test]
fn decode_graphs_on_a_device_have_this_text() {
    for arch in ["llama", "qwen2", "qwen3"] {
        let executable = compile(&File::new(arch, ONE_LAYER), params(1, 1));
        insta::assert_snapshot!(format!("{arch}_decode_device"), executable.graph().to_text());
    }
}

#[test]
fn the_compiler_keeps_the_decode_fusions_and_folds_the_activation_where_there_are_none() {
    for (fuse, n_fused) in [(true, 2), (false, 0)] {
        let mut params = params(1, 1);
        (params.cparams.fuse_qkv, params.cparams.fuse_ffn) = (fuse, fuse);
        let executable = compile(&File::new("qwen2", SMALL), params);
        let graph = executable.graph();
        for kind in [OpKind::FusedQKV, OpKind::QkvBiasRopeStore, OpKind::FusedFFN] {
            assert_eq!(count(graph, kind), n_fused, "{kind:?}");
        }
        assert_eq!(count(graph, OpKind::SwiGLU), 2 - n_fused);
        assert_eq!(executable.census().count(OpKind::Silu, Role::Orphan), 2 - n_fused);
        assert!(
            graph.nodes.iter().all(|node| node.backend == Some(BackendId::VULKAN)),
            "one device takes it all"
        );
        assert_eq!(executable.splits().len(), 1);
    }
}

#[test]
fn a_fused_block_is_seven_nodes_on_a_device() {
    for arch in ["llama", "qwen2", "qwen3"] {
        let executable = compile(&File::new(arch, SMALL), params(1, 1));
        let graph = executable.graph();
        let live = Liveness::of(graph);
        let block = live.executed(graph).filter(|node| node.layer == Some(1)).map(|node| node.op.name());
        let [first, epilogue, rest @ ..] = &*block.collect::<Vec<_>>() else { panic!("{arch}: no block") };
        assert_eq!((*first, epilogue.starts_with("Q") || *epilogue == "FusedQkvNorm"), ("FusedQKV", true));
        assert_eq!(rest, ["KvcacheLoad", "Attn", "MatMulAdd", "FusedFFN", "MatMulAdd"], "{arch}");
    }
}

#[test]
fn the_tail_reduced_swiglu_consumes_gate_and_up() {
    let executable = compile(&File::new("qwen2", SMALL), params(7, 1));
    let graph = executable.graph();
    let act = graph.nodes.iter().find(|node| node.name == "blk.1.ffn_act").expect("it keeps its name");
    assert_eq!(act.op.kind(), OpKind::SwiGLU);
    let names: Vec<&str> = act.src.iter().map(|&src| graph.node(src).name.as_str()).collect();
    assert_eq!(names, ["blk.1.ffn_gate", "blk.1.ffn_up"]);
    assert_eq!(act.shape.n_rows(), 1);
}
