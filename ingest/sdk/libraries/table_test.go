package libraries

// libraries are those with tests in their published sources. The npm packages undici, openai and ai have none, nor has pydantic-ai, and
// pip cannot fetch litellm's source. The tests that run are those of the clients: not the ones that call addresses of the internet or need a
// mock server made of the provider's OpenAPI file, as the generated tests in Python do, and not the thousands that make no HTTP calls.
var libraries = []library{
	{
		name: "httpx", source: "httpx[brotli,cli,http2,socks,zstd]", version: "0.28.1", open: openPython,
		requires: []string{"chardet<6", "trio", "trustme", "uvicorn", "cryptography"},
		common:   []string{"-m", "not network"},
		part:     []string{"tests/client/test_auth.py", "tests/client/test_client.py", "tests/client/test_async_client.py"},
		all:      []string{"tests"},
	},
	{
		name: "requests", source: "requests[socks]", version: "2.34.2", open: openPython,
		requires: []string{"pytest-httpbin==2.1.0", "httpbin~=0.10", "trustme", "pytest-mock"},
		common:   []string{"-k", "not test_connect_timeout and not test_total_timeout_connect"},
		part:     []string{"tests/test_lowlevel.py", "tests/test_requests.py::TestRequests"},
		all:      []string{"tests"},
	},
	{
		name: "urllib3", source: "urllib3[brotli,h2,socks]", version: "2.8.0", open: openPython,
		requires: []string{"anyio[trio]", "httpx", "hypercorn", "pytest-socket", "quart", "quart-trio", "trustme", "pyopenssl"},
		common:   []string{"-m", "not requires_network"},
		part:     []string{"test/test_connection.py", "test/with_dummyserver/test_connectionpool.py"},
		all:      []string{"test"},
	},
	{
		name: "aiohttp", source: "aiohttp[speedups]", version: "3.14.5", open: openPython,
		requires: []string{"blockbuster", "freezegun", "isal", "proxy.py>=2.4.4rc5", "pytest-cov", "pytest-mock", "pytest-xdist", "pytest_codspeed", "python-on-whales", "re-assert", "trustme", "zlib_ng"},
		part:     []string{"tests/test_client_middleware.py", "tests/test_client_request.py"},
		all: []string{
			"tests/test_client_connection.py", "tests/test_client_exceptions.py", "tests/test_client_fingerprint.py", "tests/test_client_functional.py",
			"tests/test_client_middleware.py", "tests/test_client_middleware_digest_auth.py", "tests/test_client_proto.py", "tests/test_client_request.py",
			"tests/test_client_response.py", "tests/test_client_session.py", "tests/test_client_ws.py", "tests/test_client_ws_functional.py",
			"tests/test_connector.py", "tests/test_formdata.py", "tests/test_payload.py", "tests/test_proxy.py", "tests/test_proxy_functional.py", "tests/test_tracing.py",
		},
	},
	{
		name: "openai", source: "openai[aiohttp,bedrock,realtime,voice-helpers]", version: "3.57.0", open: openPython,
		requires: []string{"azure-identity", "boto3", "dirty-equals", "griffe", "httpx2", "hypothesis", "inline-snapshot", "nest_asyncio", "pytest-asyncio", "pytest-xdist", "respx", "rich", "time-machine"},
		part:     []string{"tests/test_client.py::TestOpenAI", "tests/test_streaming.py"},
		all: []string{
			"tests/test_client.py", "tests/test_debug_logging.py", "tests/test_files.py", "tests/test_httpx2.py", "tests/test_httpx2_base.py", "tests/test_httpx2_workload.py",
			"tests/test_legacy_response.py", "tests/test_module_client.py", "tests/test_response.py", "tests/test_streaming.py", "tests/test_x509_workload_identity_transport.py",
			"tests/lib/chat", "tests/lib/streaming", "tests/lib/responses/test_responses.py", "tests/lib/test_azure.py", "tests/lib/test_bedrock.py", "tests/lib/test_embeddings.py",
		},
	},
	{
		name: "anthropic", source: "anthropic[aiohttp,bedrock,mcp,vertex]", version: "2.14.0", open: openPython,
		requires: []string{"dirty-equals", "griffe", "http-snapshot[httpx]", "hypothesis", "importlib-metadata", "inline-snapshot", "opentelemetry-sdk", "pytest-asyncio", "pytest-xdist", "respx", "rich", "time-machine"},
		common:   []string{"-p", "tests._alias_httpx"},
		part:     []string{"tests/test_client.py::TestAnthropic", "tests/test_streaming.py"},
		all: []string{
			"tests/test_client.py", "tests/test_exceptions.py", "tests/test_middleware.py", "tests/test_response.py", "tests/test_streaming.py", "tests/lib/streaming",
			"tests/lib/test_aws.py", "tests/lib/test_azure.py", "tests/lib/test_bedrock.py", "tests/lib/test_refusal_fallback.py", "tests/lib/test_vertex.py", "tests/lib/tools/test_runners.py",
		},
	},
	{
		name: "google-genai", source: "google-genai[aiohttp]", version: "3.6.1", open: openPython,
		requires: []string{"httpx", "httpx2", "mcp", "pillow", "pytest-asyncio", "requests"},
		part:     []string{"google/genai/tests/client/test_async_httpx_event_loops.py", "google/genai/tests/client/test_client_requests.py", "google/genai/tests/client/test_upload_errors.py"},
		all: []string{
			"google/genai/tests/client/test_aiohttp_retries.py", "google/genai/tests/client/test_async_httpx_event_loops.py",
			"google/genai/tests/client/test_async_stream.py", "google/genai/tests/client/test_client_close.py",
			"google/genai/tests/client/test_client_requests.py", "google/genai/tests/client/test_custom_client.py",
			"google/genai/tests/client/test_httpx2_client.py", "google/genai/tests/client/test_retries.py",
			"google/genai/tests/client/test_upload_api_version.py", "google/genai/tests/client/test_upload_errors.py",
			"google/genai/tests/errors",
		},
	},
	{
		name: "botocore", source: "botocore", version: "1.44.8", open: openPython,
		requires: []string{"jsonschema", "pytest-xdist"},
		mocked:   true,
		part:     []string{"tests/unit/test_endpoint.py", "tests/unit/test_http_session.py", "tests/functional/test_bedrock_runtime.py"},
		all: []string{
			"tests/unit/retries", "tests/unit/test_awsrequest.py", "tests/unit/test_client.py", "tests/unit/test_endpoint.py", "tests/unit/test_eventstream.py", "tests/unit/test_http_session.py",
			"tests/unit/test_httpchecksum.py", "tests/unit/test_response.py", "tests/unit/test_retryhandler.py", "tests/functional/test_bedrock_runtime.py", "tests/functional/test_retry.py", "tests/functional/test_stub.py",
		},
	},
	{
		name: "openai-go", source: "github.com/openai/openai-go/v3", version: "v3.95.0", open: openGo,
		part: []string{".", "-run", "^Test(Chat|Client|Context|Response|Retry|Stream|UserAgent)"},
		// Those skipped convert http.DefaultTransport, which the hook wraps, to *http.Transport.
		all: []string{"./...", "-skip", "^(TestAzureUnsafeHTTP(ForcesDirectTransport|MatchesProxyBypass|PreservesResponseHeaderTimeout)|TestWebSocketCustomCapabilityUsesConfiguredProxy)$"},
	},
	{
		name: "anthropic-sdk-go", source: "github.com/anthropics/anthropic-sdk-go", version: "v1.84.0", open: openGo,
		part: []string{".", "-run", "^Test(Client|Context|Message|Retry|Stream|UserAgent)"},
		all:  []string{"./..."},
	},
}
