//! Which KV pages belong to which sequence. The rows themselves lie in the backends' regions; this module only
//! hands out page numbers.

mod pages;

pub use pages::{Extension, KvError, KvPages, PageCopy, SeqId};
