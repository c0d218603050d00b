curl --fail-with-body "$LLMTAP_ENDPOINT/v1/events" -H "Authorization: Bearer $LLMTAP_TOKEN" \
  -H 'Content-Type: application/x-ndjson' --data-binary @- <<'END'
{"kind": "request", "exchange": "call-1", "service": "checkout-agent", "stage": "planner", "conversation": "order-17", "url": "https://api.openai.com/v1/chat/completions", "method": "POST", "body": {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]}}
{"kind": "response", "exchange": "call-1", "service": "checkout-agent", "stage": "planner", "conversation": "order-17", "status": 200, "duration_ms": 812.5, "body": {"model": "gpt-5", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}]}}
END
