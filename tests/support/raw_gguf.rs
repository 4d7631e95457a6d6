//! Writes GGUF files byte by byte, lies included. It shares no code with the crate's own writer.

/// Numbers of the value types used here.
pub(crate) const U8: u32 = 0;
pub(crate) const U32: u32 = 4;
pub(crate) const BOOL: u32 = 7;
pub(crate) const STR: u32 = 8;
pub(crate) const ARRAY: u32 = 9;
pub(crate) const U64: u32 = 10;

/// A tensor entry; `n_dims` and `offset` are told truly unless set.
#[derive(Clone)]
pub(crate) struct RawTensor {
    pub(crate) name: Vec<u8>,
    pub(crate) n_dims: Option<u32>,
    pub(crate) dims: Vec<u64>,
    pub(crate) type_id: u32,
    pub(crate) offset: Option<u64>,
    pub(crate) data: Vec<u8>,
}

/// A file; the counts are told truly unless set.
#[derive(Clone)]
pub(crate) struct RawGguf {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) n_tensors: Option<u64>,
    pub(crate) n_keys: Option<u64>,
    /// Key, number of the value type, value.
    pub(crate) keys: Vec<(Vec<u8>, u32, Vec<u8>)>,
    pub(crate) tensors: Vec<RawTensor>,
    pub(crate) alignment: usize,
}

/// A length and the bytes it belongs to.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// The head of an array: element type and number of elements.
pub(crate) fn array_head(element_type: u32, n: u64) -> Vec<u8> {
    [&element_type.to_le_bytes()[..], &n.to_le_bytes()].concat()
}

impl RawGguf {
    /// A valid file with three keys and three F32 tensors: `a` [8], `b` [8, 4], `c` [8, 2].
    pub(crate) fn valid() -> RawGguf {
        let tensor = |name: &str, dims: &[u64]| RawTensor {
            name: name.into(),
            n_dims: None,
            dims: dims.to_vec(),
            type_id: 0,
            offset: None,
            data: (0..dims.iter().product::<u64>()).flat_map(|i| (i as f32).to_le_bytes()).collect(),
        };
        let words = [array_head(STR, 2), string(b"x"), string(b"yz")].concat();
        RawGguf {
            magic: *b"GGUF",
            version: 3,
            n_tensors: None,
            n_keys: None,
            keys: vec![
                (b"general.architecture".to_vec(), STR, string(b"llama")),
                (b"general.alignment".to_vec(), U32, 32u32.to_le_bytes().to_vec()),
                (b"words".to_vec(), ARRAY, words),
            ],
            tensors: vec![tensor("a", &[8]), tensor("b", &[8, 4]), tensor("c", &[8, 2])],
            alignment: 32,
        }
    }

    /// Adds a key.
    pub(crate) fn key(mut self, key: &[u8], value_type: u32, value: &[u8]) -> RawGguf {
        self.keys.push((key.to_vec(), value_type, value.to_vec()));
        self
    }

    /// Changes tensor `b`.
    pub(crate) fn b(mut self, change: impl FnOnce(&mut RawTensor)) -> RawGguf {
        change(&mut self.tensors[1]);
        self
    }

    /// Replaces `general.alignment` by a value of the given type, and aligns the tensors to `actual`.
    pub(crate) fn aligned(mut self, value_type: u32, value: &[u8], actual: usize) -> RawGguf {
        (self.keys[1].1, self.keys[1].2) = (value_type, value.to_vec());
        self.alignment = actual;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = [&self.magic[..], &self.version.to_le_bytes()].concat();
        out.extend(self.n_tensors.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.n_keys.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (key, value_type, value) in &self.keys {
            out.extend([&string(key)[..], &value_type.to_le_bytes(), value].concat());
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            out.extend(string(&tensor.name));
            out.extend(tensor.n_dims.unwrap_or(tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        [out, data].concat()
    }
}
