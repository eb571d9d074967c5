// Short names for the types that openapi-typescript generates from openapi/openapi.json.
import type { components } from "./.types/api";

type Schemas = components["schemas"];

declare global {
  namespace Api {
    type AllStats = Schemas["AllStats"];
    type ApiKey = Schemas["ApiKey"];
    type ApiKeyPage = Schemas["ApiKeyPage"];
    type Approval = Schemas["Approval"];
    type ApprovalPage = Schemas["ApprovalPage"];
    type Failure = Schemas["Failure"];
    type Hook = Schemas["Hook"];
    type HookList = Schemas["HookList"];
    type HookStats = Schemas["HookStats"];
    type LeftOut = Schemas["LeftOut"];
    type ListedTool = Schemas["ListedTool"];
    type Loss = Schemas["Loss"];
    type MadeKey = Schemas["MadeKey"];
    type MinuteStats = Schemas["MinuteStats"];
    type Phase = Schemas["Phase"];
    type PolicyTestResult = Schemas["PolicyTestResult"];
    type Problem = Schemas["Problem"];
    type Progress = Schemas["Progress"];
    type Session = Schemas["Session"];
    type SessionDetail = Schemas["SessionDetail"];
    type SessionMessages = Schemas["SessionMessages"];
    type SessionPage = Schemas["SessionPage"];
    type SessionPendingCall = Schemas["SessionPendingCall"];
    type SessionState = Schemas["SessionState"];
    type SessionToolCall = Schemas["SessionToolCall"];
    type SessionToolResult = Schemas["SessionToolResult"];
    type StatsAnswer = Schemas["StatsAnswer"];
    type Status = Schemas["Status"];
    type ToolCall = Schemas["ToolCall"];
    type ToolCallPage = Schemas["ToolCallPage"];
    type ToolGroup = Schemas["ToolGroup"];
    type ToolGroupList = Schemas["ToolGroupList"];
    type ToolList = Schemas["ToolList"];
    type ToolLosses = Schemas["ToolLosses"];
    type ToolStats = Schemas["ToolStats"];
    type UpstreamDetails = Schemas["UpstreamDetails"];
    type UpstreamList = Schemas["UpstreamList"];
    type Validation = Schemas["Validation"];
    type Worker = Schemas["Worker"];
    type WorkerQueue = Schemas["WorkerQueue"];
    type Workers = Schemas["Workers"];
  }
}
