package event

// Names of the environment variables that hooks read. No configuration key of the collector uses these names, so that
// they can be exported for agents on the same machine.
const (
	EnvNATSURL            = "LLMTAP_NATS_URL"        // URL of NATS, or several separated by commas
	EnvEndpoint           = "LLMTAP_ENDPOINT"        // URL of a receiver of events over HTTP, used instead of NATS
	EnvToken              = "LLMTAP_TOKEN"           // token of the receiver
	EnvCAFile             = "LLMTAP_CA_FILE"         // CAs of NATS and of the receiver, in PEM format
	EnvCertFile           = "LLMTAP_CERT_FILE"       // certificate of the hook, if NATS or the receiver requires one
	EnvKeyFile            = "LLMTAP_KEY_FILE"        // private key of the certificate
	EnvShapeKey           = "LLMTAP_SHAPE_KEY"       // key of the hashes in shapes and of users
	EnvHosts              = "LLMTAP_HOSTS"           // hosts to record besides the known providers, separated by commas
	EnvCode               = "LLMTAP_CODE"            // "off": do not find where in the agent's code a call was made
	EnvService            = "LLMTAP_SERVICE"         // service, before those of OpenTelemetry
	EnvServiceVersion     = "LLMTAP_SERVICE_VERSION" // its version, likewise
	EnvCapture            = "LLMTAP_CAPTURE"         // how bodies are published by hooks that a program did not ask for: see llmtap run
	EnvServiceName        = "OTEL_SERVICE_NAME"
	EnvResourceAttributes = "OTEL_RESOURCE_ATTRIBUTES"
)

// HookEnvironment contains the names of all environment variables that hooks read.
var HookEnvironment = []string{EnvNATSURL, EnvEndpoint, EnvToken, EnvCAFile, EnvCertFile, EnvKeyFile, EnvShapeKey, EnvHosts, EnvCode, EnvService, EnvServiceVersion, EnvCapture, EnvServiceName, EnvResourceAttributes}
