//! The graph as JSON, for tools: nodes, outputs, census and, once compiled, splits and copies.

use serde::Serialize;

use super::{BackendId, Census, Executable, Graph, GraphParams, GraphType, Liveness, Node, Role, Schedule};

#[derive(Serialize)]
struct Document {
    params: ParamsRow,
    nodes: Vec<NodeRow>,
    outputs: Vec<u32>,
    census: Vec<CountRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleRow>,
}

#[derive(Serialize)]
struct ParamsRow {
    n_tokens: usize,
    n_out: usize,
    gtype: &'static str,
    n_ctx: usize,
    n_seq_max: usize,
    flash_attn: bool,
    gpu: bool,
    fuse_qkv: bool,
    fuse_ffn: bool,
    gpu_layers: usize,
    kv_format: &'static str,
    backends: u32,
    weights_version: u64,
}

#[derive(Serialize)]
struct NodeRow {
    id: u32,
    name: String,
    op: &'static str,
    payload: String,
    src: Vec<u32>,
    shape: [usize; 4],
    dtype: &'static str,
    layer: Option<u32>,
    backend: Option<String>,
    weights: Vec<WeightRow>,
    role: &'static str,
}

#[derive(Serialize)]
struct WeightRow {
    name: String,
    shape: [usize; 4],
    dtype: &'static str,
}

#[derive(Serialize)]
struct CountRow {
    op: String,
    backend: Option<String>,
    role: &'static str,
    count: usize,
}

#[derive(Serialize)]
struct ScheduleRow {
    splits: Vec<SplitRow>,
    copies: Vec<CopyRow>,
}

#[derive(Serialize)]
struct SplitRow {
    backend: String,
    nodes: Vec<u32>,
}

#[derive(Serialize)]
struct CopyRow {
    value: u32,
    from: String,
    to: String,
    before_split: u32,
    bytes: usize,
}

impl Graph {
    /// A JSON document of the nodes and what becomes of them.
    pub fn to_json(&self) -> String {
        render(self, None)
    }
}

impl Executable {
    /// A JSON document of the graph as it runs, with splits and copies.
    pub fn to_json(&self) -> String {
        render(self.graph(), Some(self.schedule()))
    }
}

fn render(graph: &Graph, schedule: Option<&Schedule>) -> String {
    let live = Liveness::of(graph);
    let census = Census::of(graph, &live);
    let count = |row: super::CensusRow| CountRow {
        op: format!("{:?}", row.op),
        backend: label(row.backend),
        role: role_name(row.role),
        count: row.n,
    };
    let document = Document {
        params: params_row(&graph.params),
        nodes: graph.nodes.iter().map(|node| node_row(node, live.role(node.id))).collect(),
        outputs: graph.outputs.iter().map(|id| id.0).collect(),
        census: census.rows().map(count).collect(),
        schedule: schedule.map(schedule_row),
    };
    serde_json::to_string_pretty(&document).expect("the document has only string keys and plain values")
}

fn params_row(params: &GraphParams) -> ParamsRow {
    let GraphParams { n_tokens, n_out, gtype, cparams, weights_version } = *params;
    ParamsRow {
        n_tokens,
        n_out,
        gtype: match gtype {
            GraphType::Prefill => "prefill",
            GraphType::Decode => "decode",
        },
        n_ctx: cparams.n_ctx,
        n_seq_max: cparams.n_seq_max,
        flash_attn: cparams.flash_attn,
        gpu: cparams.gpu,
        fuse_qkv: cparams.fuse_qkv,
        fuse_ffn: cparams.fuse_ffn,
        gpu_layers: cparams.gpu_layers,
        kv_format: cparams.kv_format.dtype().name(),
        backends: cparams.backends,
        weights_version,
    }
}

fn node_row(node: &Node, role: Role) -> NodeRow {
    let weights = node.meta.weights.iter().map(|weight| WeightRow {
        name: weight.name.to_string(),
        shape: weight.shape.0,
        dtype: weight.dtype.name(),
    });
    NodeRow {
        id: node.id.0,
        name: node.name.clone(),
        op: node.op.name(),
        payload: format!("{:?}", node.op.payload()),
        src: node.src.iter().map(|id| id.0).collect(),
        shape: node.shape.0,
        dtype: node.dtype.name(),
        layer: node.layer,
        backend: label(node.backend),
        weights: weights.collect(),
        role: role_name(role),
    }
}

fn schedule_row(schedule: &Schedule) -> ScheduleRow {
    let splits = schedule.splits().iter().map(|split| SplitRow {
        backend: split.backend.to_string(),
        nodes: schedule.nodes(split).iter().map(|id| id.0).collect(),
    });
    let copies = schedule.copies().iter().map(|copy| CopyRow {
        value: copy.value.0,
        from: copy.from.to_string(),
        to: copy.to.to_string(),
        before_split: copy.before.0,
        bytes: copy.bytes,
    });
    ScheduleRow { splits: splits.collect(), copies: copies.collect() }
}

fn label(backend: Option<BackendId>) -> Option<String> {
    backend.map(|backend| backend.to_string())
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Executed => "executed",
        Role::Alias => "alias",
        Role::Orphan => "orphan",
    }
}
