-- For wrk: posts the call in LOAD_BODY repeatedly and prints the results as one JSON line.
wrk.method = "POST"
wrk.body = os.getenv("LOAD_BODY")
wrk.headers["content-type"] = "application/json"

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('\nRESULT {"calls":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f,"max_ms":%.3f,"failed":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000, failed))
end
