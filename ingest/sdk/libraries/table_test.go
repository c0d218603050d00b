package libraries

// libraries are those with tests in their published sources. The npm packages undici, openai and ai have none, nor have litellm and
// pydantic-ai in the Python registry. Left out are tests that call addresses of the internet, the SDKs' generated tests in Python, which
// need a mock server made of the provider's OpenAPI file, and what makes no calls: aiohttp's server, openai's build and tools.
var libraries = []library{
	{
		name: "httpx", source: "httpx[brotli,cli,http2,socks,zstd]", version: "0.28.1", open: openPython,
		requires: []string{"chardet<6", "trio", "trustme", "uvicorn", "cryptography"},
		common:   []string{"-m", "not network"},
		part:     []string{"tests/client"},
		all:      []string{"tests"},
	},
	{
		name: "requests", source: "requests[socks]", version: "2.34.2", open: openPython,
		requires: []string{"pytest-httpbin==2.1.0", "httpbin~=0.10", "trustme", "pytest-mock"},
		common:   []string{"-k", "not test_connect_timeout and not test_total_timeout_connect"},
		part:     []string{"tests/test_lowlevel.py", "tests/test_requests.py"},
		all:      []string{"tests"},
	},
	{
		name: "urllib3", source: "urllib3[brotli,h2,socks]", version: "2.8.0", open: openPython,
		requires: []string{"anyio[trio]", "httpx", "hypercorn", "pytest-socket", "quart", "quart-trio", "trustme", "pyopenssl"},
		common:   []string{"-m", "not requires_network"},
		part:     []string{"test/test_connection.py", "test/test_response.py", "test/with_dummyserver/test_connectionpool.py"},
		all:      []string{"test"},
	},
	{
		name: "aiohttp", source: "aiohttp[speedups]", version: "3.14.5", open: openPython,
		requires: []string{"blockbuster", "freezegun", "isal", "proxy.py>=2.4.4rc5", "pytest-cov", "pytest-mock", "pytest-xdist", "pytest_codspeed", "python-on-whales", "re-assert", "trustme", "zlib_ng"},
		part:     []string{"tests/test_client_middleware.py", "tests/test_client_request.py", "tests/test_client_response.py", "tests/test_client_session.py"},
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
		part:     []string{"tests/test_client.py", "tests/test_streaming.py"},
		all: []string{
			"tests", "--ignore=tests/api_resources", "--ignore=tests/test_uv_workflows.py", "--ignore=tests/test_dependency_constraints.py",
			"--ignore=tests/test_example_security.py", "--ignore=tests/lib/test_browser.py", "--ignore=tests/lib/test_computer.py",
		},
	},
	{
		name: "anthropic", source: "anthropic[aiohttp,bedrock,mcp,vertex]", version: "2.14.0", open: openPython,
		requires: []string{"dirty-equals", "griffe", "http-snapshot[httpx]", "hypothesis", "importlib-metadata", "inline-snapshot", "opentelemetry-sdk", "pytest-asyncio", "pytest-xdist", "respx", "rich", "time-machine"},
		common:   []string{"-p", "tests._alias_httpx"},
		part:     []string{"tests/test_client.py", "tests/test_streaming.py"},
		all:      []string{"tests", "--ignore=tests/api_resources"},
	},
	{
		name: "google-genai", source: "google-genai[aiohttp]", version: "3.6.1", open: openPython,
		requires: []string{"httpx", "httpx2", "mcp", "pillow", "pytest-asyncio", "requests"},
		part:     []string{"google/genai/tests/client/test_client_requests.py", "google/genai/tests/client/test_httpx2_client.py"},
		all:      []string{"google/genai/tests/client", "google/genai/tests/errors", "google/genai/tests/transformers"},
	},
	{
		name: "botocore", source: "botocore", version: "1.44.8", open: openPython,
		requires: []string{"jsonschema", "pytest-xdist"},
		mocked:   true,
		part:     []string{"tests/unit/test_endpoint.py", "tests/unit/test_http_session.py", "tests/functional/test_bedrock_runtime.py"},
		all:      []string{"tests/unit", "tests/functional/test_bedrock_runtime.py", "tests/functional/test_retry.py", "tests/functional/test_stub.py"},
	},
	{
		name: "openai-go", source: "github.com/openai/openai-go/v3", version: "v3.95.0", open: openGo,
		part: []string{".", "-run", "^Test(Chat|Client|Context|Response|Retry|Stream|UserAgent)"},
		all:  []string{"./..."},
	},
	{
		name: "anthropic-sdk-go", source: "github.com/anthropics/anthropic-sdk-go", version: "v1.84.0", open: openGo,
		part: []string{".", "-run", "^Test(Client|Context|Message|Retry|Stream|UserAgent)"},
		all:  []string{"./..."},
	},
}
