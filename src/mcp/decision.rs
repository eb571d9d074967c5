//! Decisions about approvals that a client asks its user for (SEP-2322): the response to `tools/call` requests the
//! decision, and the client repeats the request with it.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ConstTitle, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, EnumSchema, InputRequest, InputRequiredResult, InputResponses,
    PrimitiveSchemaDefinition, SingleSelectEnumSchema, StringSchema, TitledSingleSelectEnumSchema,
};
use rmcp::service::{RequestContext, RoleServer};
use uuid::Uuid;

use super::Server;
use super::tasks::store_error;
use crate::access::Access;
use crate::domain::approval::MAX_REASON;
use crate::domain::{Approval, Call, Decision, Phase, Scope, Scopes, json};
use crate::engine::{Approvals, DecideError, DecisionRequest};

/// The key of the request for a decision, and of the response to it.
const KEY: &str = "approval";
/// Maximum length of arguments that are shown, in bytes. A user must be able to read what they approve.
const MAX_ARGUMENTS: usize = 16 * 1024;
const REJECT: &str = "reject";
const APPROVE: Scopes = Scopes::of([Scope::Approve]);

/// Returns `true` if the user of the client may decide about calls of the client.
pub(super) fn can_decide(access: &Access, approvals: &Approvals<'_>, context: &RequestContext<RoleServer>) -> bool {
    approvals.allow_self()
        && access.caller().scopes.allow(APPROVE)
        && context.protocol_version().is_some_and(|version| !version.has_initialize())
        && context.client_capabilities().is_some_and(|client| shows_forms(&client))
}

/// Returns `true` if the client can show a form to its user.
pub(super) fn shows_forms(client: &ClientCapabilities) -> bool {
    // A client that names no mode supports forms.
    client.elicitation.as_ref().is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Returns the request for a decision about a call that waits for one, unless its arguments are too long to be read.
pub(super) fn question(call: &Call) -> Option<InputRequiredResult> {
    let approval = pending(call)?;
    let arguments = call.effective_arguments.as_deref()?;
    let shown = serde_json::to_string_pretty(arguments).ok().filter(|text| text.len() <= MAX_ARGUMENTS)?;
    let reason = approval.reason.as_deref().map(|reason| format!("{reason}\n")).unwrap_or_default();
    let message = format!("The tool {} waits for approval.\n{reason}Arguments: {shown}", call.name);
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: form() };
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let state = DecisionState { call: call.id, digest: approval.digest.clone() }.to_state();
    Some(InputRequiredResult::new(Some([(KEY.to_owned(), request)].into()), Some(state)))
}

/// Returns the approval that a call waits for.
fn pending(call: &Call) -> Option<&Approval> {
    call.approval.as_deref().filter(|approval| approval.is_pending() && call.phase == Phase::Approval)
}

fn form() -> ElicitationSchema {
    let choices = vec![ConstTitle::new("approve", "Approve"), ConstTitle::new(REJECT, "Reject")];
    let choice = TitledSingleSelectEnumSchema::new(choices);
    let choice = EnumSchema::Single(SingleSelectEnumSchema::Titled(choice));
    let max = u32::try_from(MAX_REASON).unwrap_or(u32::MAX);
    let reason = StringSchema::new().title("Reason").max_length(max);
    let properties = [
        ("decision".to_owned(), PrimitiveSchemaDefinition::Enum(choice)),
        ("reason".to_owned(), PrimitiveSchemaDefinition::String(reason)),
    ];
    ElicitationSchema::new(properties.into()).with_required(vec!["decision".to_owned()])
}

/// The state of a request, which its client repeats. It is not signed: it gives a client no access that it does not
/// have, and a decision counts only with the digest that is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DecisionState {
    pub call: Uuid,
    /// The digest that the user has seen.
    pub digest: String,
}

impl DecisionState {
    fn to_state(&self) -> String {
        format!("{} {}", self.call, self.digest)
    }

    /// Returns what a repeated request was asked; `None` if the request is not repeated.
    pub fn read(request: &CallToolRequestParams) -> Result<Option<Self>, ErrorData> {
        let Some(state) = &request.request_state else { return Ok(None) };
        let parsed = state.split_once(' ').and_then(|(call, digest)| {
            let is_digest = digest.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64);
            Some(Self { call: call.parse().ok()?, digest: is_digest.then(|| digest.to_owned())? })
        });
        let unknown = || ErrorData::invalid_params("requestState does not come from this server", None);
        parsed.ok_or_else(unknown).map(Some)
    }
}

/// Returns the decision of the user; `None` if the user made none.
fn decision_of(responses: Option<&InputResponses>, digest: String) -> Result<Option<DecisionRequest>, ErrorData> {
    let invalid = |what: &str| ErrorData::invalid_params(format!("inputResponses.{KEY}: {what}"), None);
    let Some(response) = responses.and_then(|responses| responses.get(KEY)) else { return Ok(None) };
    let result = serde_json::from_value::<ElicitResult>(response.clone());
    let ElicitResult { action, content, .. } = result.map_err(|_| invalid("must be a result of elicitation/create"))?;
    let content = content.unwrap_or_default();
    let decision = match (action, content["decision"].as_str()) {
        (ElicitationAction::Accept, Some("approve")) => Decision::Approve,
        (ElicitationAction::Accept, Some(REJECT)) | (ElicitationAction::Decline, _) => Decision::Reject,
        (ElicitationAction::Accept, _) => return Err(invalid("decision must be approve or reject")),
        _ => return Ok(None),
    };
    let reason = content["reason"].as_str().filter(|reason| !reason.trim().is_empty());
    if reason.is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        return Err(invalid(&format!("reason must have at most {MAX_REASON} characters")));
    }
    let reason = reason.map(str::to_owned);
    Ok(Some(DecisionRequest { decision, digest, reason, arguments: None, is_remembered: false }))
}

impl Server {
    /// Records the decision of a user about a call. A decision that does not count changes nothing.
    pub(super) async fn decide(
        &self,
        access: &Access,
        state: &DecisionState,
        request: &CallToolRequestParams,
    ) -> Result<(), ErrorData> {
        let call = Self::stored(access, state.call).await?;
        if *call.name != *request.name {
            let name = json::shorten(&request.name, 64);
            return Err(ErrorData::invalid_params(format!("requestState belongs to no call of the tool {name}"), None));
        }
        let decision = decision_of(request.input_responses.as_ref(), state.digest.clone())?;
        let Some(decision) = decision.filter(|_| access.caller().scopes.allow(APPROVE)) else {
            return Ok(());
        };
        match self.0.engine.approvals().decide(access, &call, decision).await {
            Err(DecideError::Store(error)) => Err(store_error(&error)),
            // The call has ended, or it waits for another decision, as the call itself shows.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Returns `true` if a call waits for a decision that its user was not asked for.
pub(super) fn has_changed(call: &Call, state: &DecisionState) -> bool {
    pending(call).is_some_and(|approval| approval.digest != state.digest)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "sha256:c42105ebe03b669c10be19b42cfa2945deb552d56ab5c0fc2f890e378631e505";

    fn decision(response: Value) -> Result<Option<(Decision, Option<String>)>, ErrorData> {
        let responses = InputResponses::from([(KEY.to_owned(), response)]);
        let decision = decision_of(Some(&responses), DIGEST.to_owned())?;
        Ok(decision.map(|request| (request.decision, request.reason)))
    }

    #[test]
    fn state_is_read_as_written_and_invalid_states_are_rejected() {
        let state = DecisionState { call: Uuid::from_u128(7), digest: DIGEST.to_owned() };
        let mut request = CallToolRequestParams::new("pay");
        assert_eq!(DecisionState::read(&request).unwrap(), None);
        request.request_state = Some(state.to_state());
        assert_eq!(DecisionState::read(&request).unwrap(), Some(state));
        for other in ["", "a", "00000000-0000-0000-0000-000000000007", "7 sha256:00", &format!("x {DIGEST}")] {
            request.request_state = Some(other.to_owned());
            assert!(DecisionState::read(&request).is_err(), "{other}");
        }
    }

    #[test]
    fn choice_and_action_of_a_user_are_a_decision() {
        let accept = |content: Value| decision(json!({"action": "accept", "content": content}));
        let approved = accept(json!({"decision": "approve", "reason": "Invoice 17"})).unwrap();
        assert_eq!(approved, Some((Decision::Approve, Some("Invoice 17".to_owned()))));
        assert_eq!(accept(json!({"decision": "reject", "reason": " "})).unwrap(), Some((Decision::Reject, None)));
        assert_eq!(decision(json!({"action": "decline"})).unwrap(), Some((Decision::Reject, None)));
        assert_eq!(decision(json!({"action": "cancel"})).unwrap(), None);
        let long = "a".repeat(MAX_REASON + 1);
        for content in [json!({}), json!({"decision": "maybe"}), json!({"decision": "approve", "reason": long})] {
            assert!(accept(content).is_err());
        }
        assert!(decision(json!("approve")).is_err());
    }
}
