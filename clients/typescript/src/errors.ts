import type { FieldError, Problem } from "./types.js";

/** The base of all errors of this package. */
export class ToolpostError extends Error {
  override name = "ToolpostError";
}

/** The service could not be reached, or the connection broke. `cause` has the reason. */
export class ConnectionError extends ToolpostError {
  override name = "ConnectionError";
}

/** A request that the service rejected. A failed call is never an error: it is a `ToolCall` in status `ERROR`. */
export class RequestError extends ToolpostError {
  override name = "RequestError";
  /** The HTTP status. */
  readonly status: number;
  /** A stable code, as in `TOOL_EXISTS`. */
  readonly code: string;
  /** The invalid fields of the request. */
  readonly errors: FieldError[];
  /** The id of the request, which the log of the service also has. */
  readonly requestId: string | undefined;
  /** The time to wait before a retry, if the service named it. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, problem: Partial<Problem>, retryAfterMs?: number) {
    const detail = problem.detail ?? problem.title ?? "request rejected";
    const fields = (problem.errors ?? []).filter(({ message }) => !detail.includes(message));
    super(`${status} ${detail}${fields.map(({ pointer, message }) => `\n- ${pointer}: ${message}`).join("")}`);
    this.status = status;
    this.code = problem.code ?? "UNKNOWN";
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id;
    this.retryAfterMs = retryAfterMs;
  }
}

/** 400, 413, 415 and 422: the request is invalid. `errors` names the fields. */
export class InvalidRequestError extends RequestError {
  override name = "InvalidRequestError";
}
/** 401: the API key is missing, unknown, revoked or expired. */
export class AuthenticationError extends RequestError {
  override name = "AuthenticationError";
}
/** 403: the API key may not do this. */
export class PermissionDeniedError extends RequestError {
  override name = "PermissionDeniedError";
}
/** 404: the thing does not exist, or belongs to another tenant. */
export class NotFoundError extends RequestError {
  override name = "NotFoundError";
}
/** 409 and 412: the state of the thing does not permit the request. */
export class ConflictError extends RequestError {
  override name = "ConflictError";
}
/** 429: the rate or concurrency limit of the key is exceeded. */
export class RateLimitError extends RequestError {
  override name = "RateLimitError";
}
/** 5xx: the service failed, is overloaded or is shutting down. */
export class ServiceError extends RequestError {
  override name = "ServiceError";
}

const BY_STATUS: Record<number, typeof RequestError> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  412: ConflictError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  422: InvalidRequestError,
  429: RateLimitError,
};

/** Converts a response that is not 2xx to an error. Reads its body. */
export async function errorOf(response: Response): Promise<RequestError> {
  const text = await response.text().catch(() => "");
  let problem: Partial<Problem>;
  try {
    problem = JSON.parse(text) as Partial<Problem>;
    if (typeof problem !== "object" || problem === null) problem = {};
  } catch {
    // A gateway in front of the service may answer with a page of its own.
    problem = { detail: text.slice(0, 200) || response.statusText };
  }
  const RequestErrorOfStatus = BY_STATUS[response.status] ?? (response.status >= 500 ? ServiceError : RequestError);
  return new RequestErrorOfStatus(response.status, problem, retryAfterOf(response));
}

/** Reads `Retry-After`, in seconds or as a date. */
function retryAfterOf(response: Response): number | undefined {
  const value = response.headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
