//! Which tokens go together, and which pages they read.

use std::ops::Range;

use crate::graph::PAGE_TOKENS;

/// Query rows that share one conversion of a page: enough to make it cheap, few enough to stay in the cache.
const TILE_ROWS: usize = 96;

/// Positions and pages of the tokens of a step.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    /// `[n_tokens]`.
    pub(crate) positions: &'a [i32],
    /// `[n_tokens]`.
    pub(crate) seq_ids: &'a [i32],
    /// `[n_pages_max, n_seq_max]`.
    pub(crate) kv_pages: &'a [i32],
    /// Row length of `kv_pages`.
    pub(crate) n_pages_max: usize,
    /// Pages that the regions have.
    pub(crate) n_pages: usize,
    /// Latest positions that a token sees.
    pub(crate) window: Option<usize>,
}

/// Consecutive tokens of one sequence, a share of the work.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Tile<'a> {
    /// Rows of the batch.
    pub(crate) tokens: Range<usize>,
    /// Position of the first token; the others follow.
    pub(crate) position: usize,
    /// Pages of the sequence in position order.
    pub(crate) pages: &'a [i32],
}

/// An input that points outside of what there is.
pub(crate) struct BadInput {
    pub(crate) what: &'static str,
    pub(crate) expected: String,
    pub(crate) got: i64,
}

/// Cuts a step into tiles and checks every page that they read. `group` is the number of query heads per KV head.
pub(crate) fn tiles<'a>(tokens: &Tokens<'a>, group: usize) -> Result<Vec<Tile<'a>>, BadInput> {
    let max_tokens = (TILE_ROWS / group).max(1);
    let mut tiles: Vec<Tile<'a>> = Vec::new();
    for (token, &seq_id) in tokens.seq_ids.iter().enumerate() {
        let position = position_of(tokens, token)?;
        if let Some(tile) = tiles.last_mut() {
            let n = tile.tokens.len();
            let follows = tokens.seq_ids[token - 1] == seq_id && position == tile.position + n;
            if follows && n < max_tokens {
                tile.tokens.end += 1;
                check_pages(tokens, tile.pages, position)?;
                continue;
            }
        }
        let pages = pages_of(tokens, seq_id)?;
        check_pages(tokens, pages, position)?;
        tiles.push(Tile { tokens: token..token + 1, position, pages });
    }
    Ok(tiles)
}

/// The positions that the token at `position` sees.
pub(crate) fn visible(position: usize, window: Option<usize>) -> Range<usize> {
    let end = position + 1;
    end - window.map_or(end, |window| window.min(end))..end
}

fn position_of(tokens: &Tokens<'_>, token: usize) -> Result<usize, BadInput> {
    let n_positions = tokens.n_pages_max * PAGE_TOKENS;
    let position = tokens.positions[token];
    let in_range = usize::try_from(position).ok().filter(|position| *position < n_positions);
    in_range.ok_or_else(|| BadInput {
        what: "position",
        expected: format!("0 to {}", n_positions.saturating_sub(1)),
        got: position.into(),
    })
}

fn pages_of<'a>(tokens: &Tokens<'a>, seq_id: i32) -> Result<&'a [i32], BadInput> {
    let n = tokens.n_pages_max;
    let row = usize::try_from(seq_id).ok().and_then(|seq| tokens.kv_pages.get(seq * n..(seq + 1) * n));
    row.ok_or_else(|| BadInput {
        what: "sequence id",
        expected: format!("below {}", tokens.kv_pages.len().checked_div(n).unwrap_or(0)),
        got: seq_id.into(),
    })
}

fn check_pages(tokens: &Tokens<'_>, pages: &[i32], position: usize) -> Result<(), BadInput> {
    let seen = visible(position, tokens.window);
    let bad = pages[seen.start / PAGE_TOKENS..seen.end.div_ceil(PAGE_TOKENS)]
        .iter()
        .find(|page| !usize::try_from(**page).is_ok_and(|page| page < tokens.n_pages));
    bad.map_or(Ok(()), |page| {
        let expected = format!("0 to {}", tokens.n_pages.saturating_sub(1));
        Err(BadInput { what: "KV page", expected, got: (*page).into() })
    })
}
