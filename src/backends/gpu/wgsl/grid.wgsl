// Index of a workgroup of a launch that is folded into two dimensions.
fn flat(id: vec3<u32>) -> u32 {
    return id.x + id.y * 65535u;
}
