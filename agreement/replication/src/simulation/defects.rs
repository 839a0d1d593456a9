//! Rules that are broken on purpose, one at a time, and that random runs find.

use super::run;
use crate::Protocol::{Fast, Speculative, Viewstamped};
use crate::group::Defect;
use fulmar_sim::check;

#[test]
fn defects_are_found() {
    for (defect, protocols) in [
        (Defect::RepliesBeforeQuorum, &[Viewstamped][..]),
        (Defect::MajorityForSuperquorum, &[Fast, Speculative]),
        (Defect::IgnoresLastNormal, &[Speculative]),
        (Defect::KeepsIncarnation, &[Viewstamped, Fast, Speculative]),
        (Defect::PromisesEarly, &[Viewstamped, Fast, Speculative]),
        (Defect::LeadsAgain, &[Viewstamped, Fast]),
        (Defect::SkipsRound, &[Viewstamped, Fast]),
        (Defect::AnswersEarly, &[Viewstamped, Fast, Speculative]),
        (Defect::ExecutesTwice, &[Viewstamped, Fast, Speculative]),
        (Defect::MixesReplies, &[Speculative]),
        (Defect::GoesOnUnestablished, &[Viewstamped, Fast, Speculative]),
        (Defect::ExecutesQueries, &[Speculative]),
        (Defect::KeepsPromises, &[Fast]),
    ] {
        for protocol in protocols {
            let found = check("defect", 0..4_000, |seed| run(seed, *protocol, Some(defect)));
            assert!(found.is_err(), "{protocol:?}: {defect:?} is not found");
        }
    }
}
