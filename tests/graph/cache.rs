//! Which compiled graphs are kept, and which are built anew.

use minfer::graph::*;

use crate::common::*;

struct Session {
    set: BackendSet,
    cache: GraphCache,
    counters: std::sync::Arc<minfer::backends::null::Counters>,
}

impl Session {
    fn new(capacity: usize) -> Session {
        let (set, counters) = cpu_set();
        Session { set, cache: GraphCache::new(capacity), counters }
    }

    /// Asks for a graph; true if it was there.
    fn hits(&mut self, params: GraphParams) -> bool {
        let before = self.cache.n_hits();
        let build = |_: &BackendSet| Ok::<_, GraphError>(decoder(params, 1));
        let executable = self.cache.get_or_build(&params, &mut self.set, &policy(0, 1), build).unwrap();
        assert_eq!(executable.graph().params, params);
        self.cache.n_hits() > before
    }
}

#[test]
fn prefill_and_decode_both_stay() {
    let mut session = Session::new(8);
    assert!(!session.hits(params(16, 1)));
    assert!(!session.hits(params(1, 1)));
    for _ in 0..3 {
        assert!(session.hits(params(1, 1)));
        assert!(session.hits(params(16, 1)));
    }
    assert_eq!((session.cache.n_builds(), session.cache.n_hits(), session.cache.len()), (2, 6, 2));
    assert_eq!(session.counters.n_kv(), 1, "keys and values belong to no graph");
}

#[test]
fn fuse_flags_are_part_of_the_reuse_identity() {
    let base = params(1, 1);
    let flips: [fn(&mut GraphParams); 14] = [
        |p| p.cparams.fuse_qkv = !p.cparams.fuse_qkv,
        |p| p.cparams.fuse_ffn = !p.cparams.fuse_ffn,
        |p| p.cparams.gpu = !p.cparams.gpu,
        |p| p.cparams.gpu_layers += 1,
        |p| p.cparams.backends = BackendId::CPU.bit(),
        |p| p.cparams.flash_attn = !p.cparams.flash_attn,
        |p| p.cparams.n_seq_max += 1,
        |p| p.cparams.n_ctx += PAGE_TOKENS,
        |p| p.cparams.kv_format = KvFormat::F32,
        |p| p.n_tokens += 1,
        |p| {
            p.n_tokens += 2;
            p.n_out += 1;
        },
        |p| p.gtype = GraphType::Prefill,
        |p| p.weights_version += 1,
        |p| {
            p.cparams.fuse_qkv = !p.cparams.fuse_qkv;
            p.cparams.fuse_ffn = !p.cparams.fuse_ffn;
        },
    ];
    for (index, flip) in flips.into_iter().enumerate() {
        let mut session = Session::new(8);
        assert!(!session.hits(base));
        assert!(session.hits(base));
        let mut flipped = base;
        flip(&mut flipped);
        assert_ne!(flipped, base);
        // Regions of another form belong to another context.
        if flipped.cparams.n_ctx != base.cparams.n_ctx || flipped.cparams.kv_format != base.cparams.kv_format
        {
            session.set = cpu_set().0;
        }
        assert!(!session.hits(flipped), "flip {index} must rebuild");
        assert!(session.hits(flipped), "flip {index} must stay");
    }
}

#[test]
fn the_least_recently_used_graph_is_evicted_and_its_buffers_are_reused() {
    let mut session = Session::new(2);
    session.hits(params(16, 1));
    session.hits(params(1, 1));
    assert!(session.hits(params(16, 1)));
    assert!(!session.hits(params(8, 1)), "evicts the decode graph");
    assert!(session.hits(params(16, 1)));
    let n_new = session.counters.n_new();
    assert!(!session.hits(params(1, 1)), "evicts the graph of 8 tokens");
    assert!(session.counters.n_new() == n_new, "its buffers are spare since the decode graph went");
}

#[test]
fn graphs_of_older_weights_go_at_the_next_build() {
    let mut session = Session::new(8);
    session.hits(params(16, 1));
    session.hits(params(1, 1));
    let newer = GraphParams { weights_version: 2, ..params(1, 1) };
    assert!(!session.hits(newer));
    assert_eq!(session.cache.len(), 1);
}

#[test]
fn a_failed_build_is_not_kept() {
    let mut session = Session::new(8);
    let params = params(1, 1);
    let failing = |_: &BackendSet| GraphBuilder::new(params).finish();
    let result = session.cache.get_or_build(&params, &mut session.set, &policy(0, 1), failing);
    assert!(matches!(result, Err(GraphError::NothingToRun { .. })));
    assert_eq!((session.cache.len(), session.cache.n_builds()), (0, 0));
}
