//! The words of the service: tools, calls, outcomes, failures, events, stats. No input and no output.

pub mod answer;
pub mod call;
pub mod clock;
pub mod convert;
pub mod event;
pub mod failure;
pub mod json;
pub mod limits;
pub mod once;
pub mod outcome;
pub mod pause;
pub mod preset;
pub mod session;
pub mod shape;
pub mod stats;
pub mod tenant;
pub mod time;
pub mod tool;
pub mod vendor;

pub use answer::Answer;
pub use call::{Call, CallRequest, Phase, Progress, Status};
pub use clock::{Clock, Ids};
pub use convert::outcome_of;
pub use failure::{Code, Failure};
pub use limits::{Limits, LimitsSpec};
pub use once::{Claim, Once};
pub use outcome::{ContentBlock, Outcome};
pub use pause::Paused;
pub use preset::{Preset, Presets};
pub use session::{Agent, Session, SessionState};
pub use tenant::Tenant;
pub use time::Time;
pub use tool::{ExecutorSpec, Source, ToolDefinition};
pub use vendor::Vendor;
