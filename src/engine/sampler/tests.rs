use super::*;

fn options() -> SamplerOptions {
    SamplerOptions { temperature: 1.0, seed: 1, ..off() }
}

/// Every stage disabled.
fn off() -> SamplerOptions {
    SamplerOptions { top_k: 0, top_p: 1.0, min_p: 0.0, typical_p: 1.0, ..SamplerOptions::default() }
}

/// The distinct tokens of 2,000 draws, ascending.
fn support(options: SamplerOptions, logits: &[f32]) -> Vec<u32> {
    let mut sampler = Sampler::new(options).unwrap();
    let mut ids: Vec<u32> = (0..2000).map(|_| sampler.sample(logits).unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, 1.5, -1.0];

#[test]
fn nan_and_infinite_logits_are_errors_that_name_the_token() {
    for temperature in [0.0, 1.0] {
        let mut sampler = Sampler::new(SamplerOptions { temperature, ..options() }).unwrap();
        let nan = SampleError::NotFinite { id: 1, value: "NaN" };
        assert_eq!(sampler.sample(&[1.0, f32::NAN]), Err(nan));
        let inf = SampleError::NotFinite { id: 0, value: "inf" };
        assert_eq!(sampler.sample(&[f32::INFINITY, 0.0]), Err(inf));
        let none = SampleError::NoCandidate { n_vocab: 3 };
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY; 3]), Err(none));
        assert_eq!(sampler.sample(&[]), Err(SampleError::NoCandidate { n_vocab: 0 }));
    }
}

#[test]
fn greedy_takes_the_first_of_equal_logits() {
    assert_eq!(Sampler::new(SamplerOptions::greedy()).unwrap().sample(&[1.0, 3.0, 3.0]), Ok(1));
}

#[test]
fn top_k_of_zero_or_less_or_beyond_the_vocabulary_is_disabled_and_one_is_greedy() {
    for top_k in [0, -1, 1_000_000_000] {
        assert_eq!(support(SamplerOptions { top_k, ..options() }, &LOGITS), [0, 1, 2, 3, 4]);
    }
    assert_eq!(support(SamplerOptions { top_k: 1, ..options() }, &LOGITS), [1]);
    assert_eq!(support(SamplerOptions { top_k: 2, ..options() }, &LOGITS), [1, 3]);
}

#[test]
fn top_p_keeps_the_smallest_set_that_reaches_it_and_at_least_one() {
    assert_eq!(support(SamplerOptions { top_p: 0.0, ..options() }, &LOGITS), [1]);
    // Probabilities: 0.443, 0.269, 0.163, 0.060 … of 1, 3, 2, 0.
    assert_eq!(support(SamplerOptions { top_p: 0.6, ..options() }, &LOGITS), [1, 3]);
    assert_eq!(support(SamplerOptions { top_p: 0.8, ..options() }, &LOGITS), [1, 2, 3]);
}

#[test]
fn min_p_is_relative_to_the_best_token() {
    assert_eq!(support(SamplerOptions { min_p: 1.0, ..options() }, &LOGITS), [1]);
    assert_eq!(support(SamplerOptions { min_p: 0.5, ..options() }, &LOGITS), [1, 3]);
}

#[test]
fn typical_sampling_prefers_tokens_of_average_surprise() {
    // Entropy is 0.80 nats, surprises are 0.37, 1.75 and 2.04: the first is nearest, the second next.
    let logits = [0.69f32.ln(), 0.174f32.ln(), 0.13f32.ln()];
    assert_eq!(support(SamplerOptions { typical_p: 0.5, ..options() }, &logits), [0]);
    assert_eq!(support(SamplerOptions { typical_p: 0.8, ..options() }, &logits), [0, 1]);
    assert_eq!(support(SamplerOptions { typical_p: 0.0, ..options() }, &logits), [0]);
}

#[test]
fn every_subset_of_stages_draws_and_an_empty_list_is_plain_softmax() {
    for bits in 0..1 << Stage::ALL.len() {
        let stages = Stage::ALL.into_iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        let stages: Vec<Stage> = stages.map(|(_, stage)| stage).collect();
        let doubled =
            SamplerOptions { stages: [&stages[..], &stages[..]].concat(), ..SamplerOptions::default() };
        assert!(support(doubled, &LOGITS).contains(&1));
    }
    let plain = SamplerOptions { stages: vec![], top_k: 1, temperature: 0.1, ..options() };
    assert_eq!(support(plain, &LOGITS), [0, 1, 2, 3, 4]);
    assert!("top_q".parse::<Stage>().is_err());
}

#[test]
fn draws_follow_the_probabilities() {
    let mut sampler = Sampler::new(options()).unwrap();
    let n_first = (0..20_000).filter(|_| sampler.sample(&[3f32.ln(), 0.0]).unwrap() == 0).count();
    assert!((14_600..15_400).contains(&n_first), "{n_first} of 20000, 15000 expected");
}

#[test]
fn the_same_seed_gives_the_same_tokens_and_another_seed_others() {
    let draw = |seed| {
        let mut sampler = Sampler::new(SamplerOptions { seed, ..options() }).unwrap();
        (0..32).map(|_| sampler.sample(&LOGITS).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn penalties_look_at_the_recent_tokens_only() {
    let penalised = SamplerOptions { repeat_penalty: 4.0, penalty_last_n: 2, ..SamplerOptions::greedy() };
    let mut sampler = Sampler::new(penalised).unwrap();
    sampler.accept(1);
    assert_eq!(sampler.sample(&LOGITS), Ok(3));
    sampler.accept(3);
    assert_eq!(sampler.sample(&LOGITS), Ok(2));
    sampler.accept(2);
    assert_eq!(sampler.sample(&LOGITS), Ok(1), "token 1 has left the window");
}

#[test]
fn frequency_counts_occurrences_and_presence_does_not() {
    let greedy = SamplerOptions::greedy();
    for (frequency_penalty, presence_penalty, expected) in [(0.3, 0.0, 3), (0.0, 0.3, 1)] {
        let options = SamplerOptions { frequency_penalty, presence_penalty, ..greedy.clone() };
        let mut sampler = Sampler::new(options).unwrap();
        sampler.accept(1);
        sampler.accept(1);
        assert_eq!(sampler.sample(&LOGITS), Ok(expected));
    }
}

#[test]
fn a_banned_token_never_appears_greedy_included() {
    let banned =
        SamplerOptions { logit_bias: vec![(1, f32::NEG_INFINITY), (99, 1.0)], ..SamplerOptions::greedy() };
    assert_eq!(Sampler::new(banned).unwrap().sample(&LOGITS), Ok(3));
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    for (options, name) in [
        (SamplerOptions { top_p: 1.5, ..off() }, "top_p"),
        (SamplerOptions { top_p: -1.0, ..off() }, "top_p"),
        (SamplerOptions { min_p: 2.0, ..off() }, "min_p"),
        (SamplerOptions { temperature: f32::NAN, ..off() }, "temperature"),
        (SamplerOptions { temperature: -0.5, ..off() }, "temperature"),
        (SamplerOptions { repeat_penalty: 0.0, ..off() }, "repeat_penalty"),
        (SamplerOptions { penalty_last_n: -2, ..off() }, "penalty_last_n"),
        (SamplerOptions { logit_bias: vec![(0, f32::NAN)], ..off() }, "logit_bias"),
    ] {
        assert_eq!(options.check().unwrap_err().name, name);
    }
}

#[test]
fn a_partly_sorted_list_orders_like_a_full_sort() {
    let logits: Vec<f32> = (0..1000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32).collect();
    let mut grown = Candidates::default();
    grown.fill(&logits);
    let mut whole = grown.clone();
    grown.sorted(10);
    grown.sorted(300);
    assert_eq!(grown.sorted(700), &whole.sorted(1000)[..700]);
}
