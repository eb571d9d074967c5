//! Columns that exist only to find calls: the error code and the class of the duration.

use toolpost_core::domain::{Call, Code, Status};

/// The greatest class of durations: about 4.6 hours and more.
pub const MAX_DURATION_CLASS: i16 = 92;

/// Returns the value of the column `code` for an error code. The numbers are stored and never change; 0 is a failure
/// without a code.
pub fn code_number(code: Code) -> i16 {
    match code {
        Code::ToolNotFound => 1,
        Code::ToolUnavailable => 2,
        Code::ToolPaused => 3,
        Code::ArgumentsMalformed => 4,
        Code::ArgumentsTruncated => 5,
        Code::ToolValidationError => 6,
        Code::ToolBlocked => 7,
        Code::HookFailed => 8,
        Code::ToolTimeout => 9,
        Code::ToolExecutionError => 10,
        Code::ResultInvalid => 11,
        Code::Cancelled => 12,
        Code::OutcomeUnknown => 13,
        Code::Overloaded => 14,
        Code::ShuttingDown => 15,
        Code::ApprovalDenied => 16,
        Code::ApprovalExpired => 17,
        Code::PolicyDenied => 18,
        Code::BudgetExceeded => 19,
        Code::NoWorker => 20,
    }
}

/// The greatest value of the column `code`.
pub const MAX_CODE: i16 = 20;

/// Returns the class of a duration in milliseconds. There are four classes for each doubling, and one for each value
/// below 8.
pub fn duration_class(millis: u64) -> i16 {
    if millis < 4 {
        return millis as i16;
    }
    let octave = millis.ilog2();
    let quarter = (millis >> (octave - 2)) & 3;
    i16::try_from(u64::from(octave) * 4 + quarter - 4).unwrap_or(i16::MAX).min(MAX_DURATION_CLASS)
}

/// Returns the column `code` of a call: the code of a failed call, and `None` for all others.
pub fn code_of(call: &Call) -> Option<i16> {
    let failure = call.outcome.as_deref().and_then(|outcome| outcome.error.as_ref());
    (call.status == Status::Error).then(|| failure.map_or(0, |failure| code_number(failure.code)))
}

/// Returns the column `slow` of a call: the class of the duration of an ended call, and `None` for calls of less than a
/// millisecond and for unfinished calls.
pub fn slow_of(call: &Call) -> Option<i16> {
    call.duration_ms().filter(|millis| *millis > 0).map(duration_class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_different_numbers() {
        let numbers: std::collections::BTreeSet<i16> = Code::ALL.into_iter().map(code_number).collect();
        assert_eq!(numbers.len(), Code::ALL.len());
        assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&MAX_CODE)));
    }

    #[test]
    fn classes_increase_with_the_duration() {
        assert_eq!([0, 1, 3, 4, 7, 8, 9, 10].map(duration_class), [0, 1, 3, 4, 7, 8, 8, 9]);
        let mut last = 0;
        for millis in (0..5000).chain((5000..20_000_000).step_by(997)) {
            let class = duration_class(millis);
            assert!(class == last || class == last + 1, "{millis}: {last}, {class}");
            last = class;
        }
        assert_eq!((last, duration_class(u64::MAX)), (MAX_DURATION_CLASS, MAX_DURATION_CLASS));
    }
}
