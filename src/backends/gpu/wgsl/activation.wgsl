fn silu(x: f32) -> f32 {
    return x / (1.0 + exp(-x));
}

fn swiglu(gate: f32, up: f32) -> f32 {
    return silu(gate) * up;
}
