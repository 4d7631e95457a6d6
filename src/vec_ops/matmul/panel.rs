//! What unpacking produces and the small kernels consume.

/// Rows that are computed together: a vector lane each.
pub(in crate::vec_ops) const GROUP_ROWS: usize = 8;

/// Elements of a block, of weights as of activations.
pub(in crate::vec_ops) const BLOCK: usize = 32;

/// Blocks of a super-block of the K-quants; unpacking starts and ends at multiples of it.
pub(in crate::vec_ops) const SUPER_BLOCKS: usize = 8;

/// Most row groups in one call of a small kernel.
pub(in crate::vec_ops) const TILE_GROUPS: usize = 2;

/// Most tokens in one call of a small kernel.
pub(in crate::vec_ops) const TILE_TOKENS: usize = 8;

/// Most tokens in one call of a kernel of floats.
pub(in crate::vec_ops) const FLOAT_TOKENS: usize = 4;

/// Most planes of a token.
pub(in crate::vec_ops) const MAX_PLANES: usize = 2;

/// One block of 32 elements of eight rows. Which of the fields beside `quants` and `scale` are used is a
/// matter of the [`Form`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::vec_ops) struct PanelBlock {
    /// `[k / 4][row][k % 4]`, as stored or, in a signed form, the two's complement byte.
    pub(in crate::vec_ops) quants: [[[u8; 4]; GROUP_ROWS]; BLOCK / 4],
    /// Factor of the integer sum, per row.
    pub(in crate::vec_ops) scale: [f32; GROUP_ROWS],
    /// What is subtracted per unit of activation, per row; with minima per half, their factor.
    pub(in crate::vec_ops) min: [f32; GROUP_ROWS],
    /// Integer scales of the two halves of 16, per row.
    pub(in crate::vec_ops) half_scales: [[i16; 2]; GROUP_ROWS],
    /// Integer minima of the two halves of 16, per row.
    pub(in crate::vec_ops) half_mins: [[i16; 2]; GROUP_ROWS],
}

impl PanelBlock {
    pub(in crate::vec_ops) const ZERO: PanelBlock = PanelBlock {
        quants: [[[0; 4]; GROUP_ROWS]; BLOCK / 4],
        scale: [0.0; GROUP_ROWS],
        min: [0.0; GROUP_ROWS],
        half_scales: [[0; 2]; GROUP_ROWS],
        half_mins: [[0; 2]; GROUP_ROWS],
    };
}

/// One block of 32 quantised activations of one token.
#[derive(Clone, Copy)]
#[repr(C)]
pub(in crate::vec_ops) struct ActivationBlock {
    /// -127 to 127.
    pub(in crate::vec_ops) quants: [i8; BLOCK],
    /// The activations are about `quants * scale`.
    pub(in crate::vec_ops) scale: f32,
    /// Sum of all quants times `scale`.
    pub(in crate::vec_ops) scaled_sum: f32,
    /// Sums of the quants of the two halves of 16.
    pub(in crate::vec_ops) half_sums: [i16; 2],
}

impl ActivationBlock {
    pub(in crate::vec_ops) const ZERO: ActivationBlock =
        ActivationBlock { quants: [0; BLOCK], scale: 0.0, scaled_sum: 0.0, half_sums: [0; 2] };

    /// What this block leaves of the activations it was made from, in unfused operations that every
    /// instruction set has.
    pub(in crate::vec_ops) fn rest_of(&self, x: &[f32; BLOCK]) -> [f32; BLOCK] {
        std::array::from_fn(|i| x[i] - f32::from(self.quants[i]) * self.scale)
    }
}

/// The bytes of eight rows.
pub(in crate::vec_ops) type RowGroup<'a> = [&'a [u8]; GROUP_ROWS];

/// Accumulators `[group][token][row]`.
pub(in crate::vec_ops) type Tile = [[[f32; GROUP_ROWS]; TILE_TOKENS]; TILE_GROUPS];

/// Unpacks blocks of eight rows, from block `first` on, as many as the panel holds. Types with super-blocks
/// get whole ones only. On the way, the bytes in `ahead` are asked for, because they will be read soon.
pub(in crate::vec_ops) type Unpack =
    fn(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock], ahead: &[u8]);

/// Adds the products of 1 to [`TILE_GROUPS`] panels and 1 to [`TILE_TOKENS`] tokens, all of one length, to
/// the tile.
pub(in crate::vec_ops) type Dot =
    fn(panels: &[&[PanelBlock]], tokens: &[&[ActivationBlock]], tile: &mut Tile);

/// Adds the products of eight rows and 1 to [`MAX_PLANES`] vectors to the sums `[vector][row]`; the bytes in
/// `ahead` are asked for on the way.
pub(in crate::vec_ops) type Single =
    fn(rows: &RowGroup<'_>, vectors: &[&[ActivationBlock]], sums: &mut [[f32; GROUP_ROWS]], ahead: &[u8]);

/// Writes the products of eight rows of floats and 1 to [`FLOAT_TOKENS`] tokens `[n_in] f32` to
/// `[token][row]`.
pub(in crate::vec_ops) type FloatDot =
    fn(rows: &RowGroup<'_>, tokens: &[&[f32]], out: &mut [[f32; GROUP_ROWS]; FLOAT_TOKENS]);

/// Quantises one token's activations.
pub(in crate::vec_ops) type Quantise = fn(x: &[f32], blocks: &mut [ActivationBlock]);

/// The minima that a form has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::vec_ops) enum Mins {
    None,
    PerBlock,
    PerHalf,
}

/// What the bytes of a panel mean: all that the small kernels need to know about a type.
pub(in crate::vec_ops) trait Form {
    /// The largest stored value of an unsigned form; kernels derive from it how many products fit 16 bits.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    const MAX: i32;
    /// True if `quants` are signed bytes of the full range.
    const SIGNED: bool = false;
    /// The value that stands for zero.
    const OFFSET: i16 = 0;
    /// True if the halves have integer scales.
    const HALF_SCALES: bool = false;
    /// Which minima there are.
    const MINS: Mins = Mins::None;
}

/// Q4_1, Q4_K.
pub(in crate::vec_ops) struct Nibble;
impl Form for Nibble {
    const MAX: i32 = 15;
    const MINS: Mins = Mins::PerBlock;
}

/// Q4_0.
pub(in crate::vec_ops) struct CentredNibble;
impl Form for CentredNibble {
    const MAX: i32 = 15;
    const OFFSET: i16 = 8;
}

/// Q5_1, Q5_K.
pub(in crate::vec_ops) struct FiveBit;
impl Form for FiveBit {
    const MAX: i32 = 31;
    const MINS: Mins = Mins::PerBlock;
}

/// Q5_0.
pub(in crate::vec_ops) struct CentredFiveBit;
impl Form for CentredFiveBit {
    const MAX: i32 = 31;
    const OFFSET: i16 = 16;
}

/// MXFP4, whose doubled values -12 to 12 are stored as 0 to 24.
pub(in crate::vec_ops) struct TinyFloat;
impl Form for TinyFloat {
    const MAX: i32 = 24;
    const OFFSET: i16 = 12;
}

/// Q8_0, IQ4_NL, IQ4_XS.
pub(in crate::vec_ops) struct SignedByte;
impl Form for SignedByte {
    const MAX: i32 = 128;
    const SIGNED: bool = true;
}

/// Q2_K.
pub(in crate::vec_ops) struct TwoBit;
impl Form for TwoBit {
    const MAX: i32 = 3;
    const HALF_SCALES: bool = true;
    const MINS: Mins = Mins::PerHalf;
}

/// Q3_K.
pub(in crate::vec_ops) struct ThreeBit;
impl Form for ThreeBit {
    const MAX: i32 = 7;
    const OFFSET: i16 = 4;
    const HALF_SCALES: bool = true;
}

/// Q6_K.
pub(in crate::vec_ops) struct SixBit;
impl Form for SixBit {
    const MAX: i32 = 63;
    const OFFSET: i16 = 32;
    const HALF_SCALES: bool = true;
}
