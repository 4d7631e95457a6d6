// The two-bit numbers of four elements of a 256-element block: four planes of 32 elements per half.
fn two_bits4(bytes: u32, e: u32) -> u32 {
    return (bytes >> ((e & 96u) >> 4u)) & 0x03030303u;
}

// Offset of the byte that holds two bits of element `e`.
fn two_bits_at(e: u32) -> u32 {
    return ((e & 128u) >> 2u) + (e & 31u);
}
