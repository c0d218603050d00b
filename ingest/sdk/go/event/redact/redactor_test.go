package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func newRedactor(t testing.TB, patterns ...string) *Redactor {
	t.Helper()
	return must.Get(NewRedactor(Config{Kinds: Kinds, Patterns: patterns}))(t)
}

// alnum returns n letters and digits.
func alnum(n int) string {
	const letters = "aB3cD4eF5gH6iJ7kL8mN9oPqR0sTuV1wXyZ2"
	return strings.Repeat(letters, n/len(letters)+1)[:n]
}

const hex64 = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

// Each text is tested plain, as a JSON string, and as a JSON string in a JSON string.
func TestRedactor(t *testing.T) {
	c := newRedactor(t)
	f := func(in, want string) {
		t.Helper()
		for range 3 {
			once := c.Append([]byte("x"), []byte(in))[1:]
			if string(once) != want {
				t.Errorf("\n in   %s\n got  %s\n want %s", in, once, want)
			}
			if again := c.Append(nil, once); !bytes.Equal(again, once) {
				t.Errorf("masked twice:\n once  %s\n again %s", once, again)
			}
			in, want = quote(in), quote(want)
		}
	}
	same := func(in string) { t.Helper(); f(in, in) }

	// Keys of providers, clouds and services.
	f("key sk-"+alnum(48)+".", "key sk-***.")
	f("OPENAI_API_KEY=sk-proj-"+alnum(20)+"_"+alnum(30)+"-"+alnum(40), "OPENAI_API_KEY=***")
	f("use\nsk-ant-api03-"+alnum(93)+"\n", "use\nsk-***\n")
	f("(sk-or-v1-"+hex64+")", "(sk-***)")
	f("gsk_"+alnum(52)+" hf_"+alnum(34)+" r8_"+alnum(37)+" xai-"+alnum(80)+" pplx-"+alnum(48)+" nvapi-"+alnum(64), "gsk_*** hf_*** r8_*** xai-*** pplx-*** nvapi-***")
	f("AIza"+alnum(35)+"\t", "AIza***\t")
	f("id AKIAQ3EGTXVZ7W2KLMNP, temporary ASIAQ3EGTXVZ7W2KLMNP", "id AKIA***, temporary ASIA***")
	f("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = ***")
	f(`{"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "Region": "eu-west-1"}`, `{"SecretAccessKey": "***", "Region": "eu-west-1"}`)
	f("DefaultEndpointsProtocol=https;AccountName=logs;AccountKey="+alnum(86)+"==;EndpointSuffix=core.windows.net", "DefaultEndpointsProtocol=https;AccountName=logs;AccountKey=***;EndpointSuffix=core.windows.net")
	f("client abc8Q~"+alnum(34)+" of Entra", "client *** of Entra")
	f("ya29."+alnum(60)+" GOCSPX-"+alnum(28), "ya29.*** GOCSPX-***")
	f("ghp_"+alnum(36)+" github_pat_"+alnum(22)+"_"+alnum(59)+" glpat-"+alnum(20), "ghp_*** github_pat_*** glpat-***")
	f("xoxb-123456789012-1234567890123-"+alnum(24)+" npm_"+alnum(36)+" pypi-AgEIcHlwaS5vcmc"+alnum(60), "xoxb-*** npm_*** pypi-***")
	f("https://hooks.slack.com/services/T00000000/B00000000/"+alnum(24)+" said", "https://hooks.slack.com/services/*** said")
	f("xoxc-123456789012-"+alnum(40)+" xoxd-"+alnum(60)+" pcsk_"+alnum(60)+" rpa_"+alnum(40)+" sgp_"+alnum(40), "xoxc-*** xoxd-*** pcsk_*** rpa_*** sgp_***")
	f("LTAI5tAbCdEfGhIjKlMnOpQr AKIDz8krbsJ5yKBZQpn74WFkmLPx3gnPhESA AKLT"+alnum(43)+" ATATT3xFfGF0"+alnum(60), "LTAI*** AKID*** AKLT*** ATATT3***")
	f("glm "+hex64[:32]+"."+alnum(16)+", AGE-SECRET-KEY-1"+strings.ToUpper(alnum(58)), "glm ***, AGE-SECRET-KEY-***")
	f("sk_live_"+alnum(24)+" whsec_"+alnum(32)+" SG."+alnum(22)+"."+alnum(43), "sk_*** whsec_*** SG.***")
	f("hvs."+alnum(90)+" dapi"+hex64[:32], "hvs.*** dapi***")
	f("bot 123456789:AA"+alnum(33), "bot 123456789:***")
	f("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."+alnum(43), "eyJ***")
	// Bearer tokens, headers, passwords.
	f("-H 'Authorization: Bearer "+alnum(40)+"'", "-H 'Authorization: Bearer ***'")
	f(`{"authorization":"Basic dXNlcjpodW50ZXIy"}`, `{"authorization":"Basic ***"}`)
	f("Bearer 0f8fad5b-d9cb-469f-a165-70867728950e", "Bearer ***")
	f("x-api-key: "+hex64[:32]+"\r\nAccept: */*", "x-api-key: ***\r\nAccept: */*")
	f("docker login --username app --password hunter22 --registry x; gh --token "+alnum(40)+" --api-key "+hex64[:32], "docker login --username app --password *** --registry x; gh --token *** --api-key ***")
	f("Authorization: token "+alnum(40)+"\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIAQ3EGTXVZ7W2KLMNP/20260101/us-east-1/s3/aws4_request, Signature="+hex64,
		"Authorization: token ***\nAuthorization: *** Credential=AKIA***/20260101/us-east-1/s3/aws4_request, Signature="+hex64)
	f("?sv=2022-11-02&sig="+alnum(43)+"%3D&X-Amz-Signature="+hex64+"&X-Amz-Security-Token="+alnum(100), "?sv=2022-11-02&sig=***&X-Amz-Signature=***&X-Amz-Security-Token=***")
	f("PRIVATE-TOKEN: "+alnum(20)+"\nX-Goog-Api-Key: "+alnum(39)+"\nOcp-Apim-Subscription-Key: "+hex64[:32], "PRIVATE-TOKEN: ***\nX-Goog-Api-Key: ***\nOcp-Apim-Subscription-Key: ***")
	f("AZURE_OPENAI_KEY="+hex64[:32]+"\nPGPASS=hunter22\nDB_PASS='hunter22'\n//npm.example.com/:_authToken="+alnum(36), "AZURE_OPENAI_KEY=***\nPGPASS=***\nDB_PASS='***'\n//npm.example.com/:_authToken=***")
	f(`"refresh_token": "1//0`+alnum(60)+`", "token": "`+alnum(30)+`"`, `"refresh_token": "***", "token": "***"`)
	f("Cookie: session=4fJk2; theme=dark\r\nAccept: a", "Cookie: ***\r\nAccept: a")
	f("DB_PASSWORD=s3cr3t!pw\nPORT=80", "DB_PASSWORD=***\nPORT=80")
	f(`connect(password="hunter22", port=5432)`, `connect(password="***", port=5432)`)
	f(`{"user": "app", "password": "p\"w,d;x99", "n": 1}`, `{"user": "app", "password": "***", "n": 1}`)
	f("config['client_secret'] = 'Ab-cd9-xyz'", "config['client_secret'] = '***'")
	f("postgres://app:hunter2@db:5432/x", "postgres://app:***@db:5432/x")
	f("https://ghp_"+alnum(36)+"@github.com/a/b", "https://***@github.com/a/b")
	f("-----BEGIN RSA PRIVATE KEY-----\n"+alnum(64)+"\n"+alnum(64)+"\n-----END RSA PRIVATE KEY-----\n", "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\n")
	f("-----BEGIN OPENSSH PRIVATE KEY-----\n"+alnum(64), "-----BEGIN OPENSSH PRIVATE KEY-----***")
	// Personal data.
	f("mail jane.doe+x@mail.example.co.uk, please", "mail ***@***, please")
	f("<jane@example.com>\njim_2@example.org.", "<***@***>\n***@***.")
	f("call +14155552671 or +49 30 901820 or +44 (0)20 7946 0958.", "call *** or *** or ***.")
	f("tel: +33 6 12 34 56 78, (415) 555-2671, 415-555-2671, 1-415-555-2671, 415.555.2671", "tel: ***, ***, ***, ***, ***")
	f("+86 138 1234 5678, +8613812345678, +33 (0)6 12 34 56 78, +91 98765 43210, +1.415.555.2671, +44.20.7946.0958, +971 50 123 4567, +352 26 12 34", "***, ***, ***, ***, ***, ***, ***, ***")
	f("card 4111 1111 1111 1111, 4111-1111-1111-1111 or 5555555555554444 now; 3782 822463 10005", "card ***, *** or *** now; ***")
	f("a%204111111111111111 b%20Bearer%20"+alnum(40)+" c%3D(415)%20555-2671 d=%28415-555-2671", "a%20*** b%20Bearer%20*** c%3D(415)%20555-2671 d=%28***")
	f("4111-1111-1111-1111 5500-0000-0000-0004 4111111111111111 12/27 123, 415-555-2671 415-555-2672 (415) 555-2671 9", "*** *** *** 12/27 123, *** *** *** 9")
	f(`{"card": 4111111111111111, "list":[378282246310005,6011111111111117]}`, `{"card": 0, "list":[0,0]}`)

	// Similar text that is evidence or code.
	same("call_Ab3dEf6hIj9kLm2nOp5qRs8t toolu_01AbCdEfGhIjKlMnOpQrStUv chatcmpl-AbCdEf0123456789AbCdEf0123456789 req_011CSHoEeqs5C35K2UUqR7Fy resp_" + hex64[:48])
	same("0f8fad5b-d9cb-469f-a165-70867728950e 01970c3e-8f2b-7a61-b0a7-3f1de2c4a9d1 " + hex64 + " " + hex64[:40] + " sha256:" + hex64)
	same("class='sk-container-id-1 sk-toggleable__content' sk-estimator pk_user_id fw_version_2 hf_model_path_v2 npm_config_user_agent")
	same("max_tokens: 4096, next_page_token='CAoQAA1234567890abcdefgh', token_count=1234567890123456789012, cache_key=\"user:1234567890abcdef\"")
	same("password = getpass.getpass()\npassword = request2.form['password']\napi_key=os.environ['OPENAI_API_KEY2']\nself.token = token")
	same(`{"password": {"type": "string", "description": "at least 8"}, "api_key": "YOUR_API_KEY", "secret": null, "token": "abc"}`)
	same(`{"password": "string", "password_hint": "the dog's name"} PASSWORD=$DB_PASSWORD2 password: "${PW}" "password": "Enter your password please"`)
	same("Bearer authentication is required; bearer tokens; f\"Bearer {token}\"; Authorization: Bearer $TOKEN1234567890")
	same("if '-----BEGIN PRIVATE KEY-----' in text: raise; -----BEGIN CERTIFICATE-----\n" + alnum(64) + "\n-----END CERTIFICATE-----")
	same("git@github.com:llmtap/llmtap.git openai@4.2.1 @types/node@18.0.0 logo@2x.png @app.route q@k.transpose(0, 1) x@w.T actions/checkout@v4")
	same("https://example.com:8080/@scope/x http://user@host/ postgres://${USER}:${PASS}@host/db")
	same("1700000000 1700000000000 1700000000000000 2026-11-21T08:00:00.123456789Z 192.168.100.200 10.0.0.1:8080 v1.22.333 3.14159265358979 0x4111111111111111")
	same("4111 1111 1111 1111 1111 rows 4111-1111-1111-1111-1 2023 2024 2025 2026")
	same("4111111111111112 1234567890123456 id_4111111111111111 4111111111111111_x 0.4111111111111111 4111111111111111.5 1,234,567,890")
	same("@@ -415,555 +1,7 @@\n+1700000000\n+12345678\n1e+10 x+1 +0530 +1-2 [+1, +2, +3] 2671-415-555-2671-1 200-300-400 415-155-2671 555-2671")
	// Lines added in a diff are not phone numbers.
	same("@@ -1,9 +1,12 @@\n+2024-01-15 fix\n+2024-01-15 10:00 b\n+2024.01.15\n+20240101120000,a\n+2147483647\n+4294967295\n+255 255 255\n+30 40 50 60 70\n+64.123.45.67\n+52.112.134.156\n+30.1234567890\n+9876543210")
	same("x = +2147483647, delta=+33554432, GMT+0100, {\"d\": \"+1234567890\"}")
	same("password = os.environ[\"DB_PASSWORD1\"]\npassword=os.getenv('PG_PASS1')\npassword: process.env.DB_PASSWORD2\npassword: str = Field(..., min_length=8)\nconst password = req.body.password1;\nsecret = config[\"secret2\"]")
	same("apiKey: process.env['KEY_12345678']\napi_key: ${{ secrets.OPENAI_API_KEY2 }}\nlet secret: String = hash256(x);\nAuthorization: Bearer <token1234567890abcdef>\nheaders = {'Authorization': 'Bearer ' + key1}")
	same("docker login --password-stdin; --password \"$PW1234\"; --password PASSWORD; --token-file /etc/token1; ----- --a1b2c3d4e5f6; git commit --author x; --api-key string   of 32 bytes")
	same(`token="my_long_identifier_name_2", "token": "function_name_of_parser_1", "nextPageToken": "` + alnum(40) + `", "idempotency_key": "` + alnum(32) + `", "public_key": "` + alnum(44) + `"`)
	same("sha512-" + alnum(86) + "== h1:" + alnum(43) + "= ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ" + alnum(80) + " data:image/png;base64," + alnum(500) + "+/" + alnum(300) + "==")
	same("PASS: test_login_2\nsecretName: my-tls-secret\nPASSWORD_RESET_TIMEOUT=86400\n<input type=\"password\" name=\"password1\" class=\"pass-field2\">\nlabel: \"Password:\"\ndocument.cookie\nCookie: none")
	same("00:1A:2B:3C:4D:5E 2001:0db8:85a3:0000:0000:8a2e:0370:7334 ISBN 978-3-16-148410-0 SSN-like 123-45-6789 order 1234-5678-9012-3456 EAN 4006381333931 mean " + "12345678901234567890123456789012.1234567890123456")
	same("risk-abcdef0123456789abcdef disk_" + alnum(30) + " " + hex64[:32] + ".jpg " + hex64[:32] + ".chunk.js mat@vec.shape[0] attn@v.float() java.lang.Object@1b6d3586 root@a1b2c3d4e5f6:/#")
	// After an escape whose last digit could belong to a number.
	for in, want := range map[string]string{
		`"\u00274111111111111111\u0027"`: `"\u0027***\u0027"`, `"\u00e9415-555-2671"`: `"\u00e9***"`, `"\u0020+14155552671"`: `"\u0020***"`,
		`"\b4111111111111111\f415-555-2671"`: `"\b***\f***"`, `"\u0020bearer ` + alnum(30) + `"`: `"\u0020bearer ***"`, `"\u00204111111111111112"`: `"\u00204111111111111112"`,
	} {
		if got := c.Append(nil, []byte(in)); string(got) != want {
			t.Errorf("%s\n got  %s\n want %s", in, got, want)
		}
	}
	same("eyJhbGciOiJIUzI1NiJ9 eyJpZCI6MTIzNDU2Nzg5MDEyMzQ1Njc4OTB9 AKIAshort ASIA-northeast1 AIzaShort")
	same(`"thoughtSignature":"` + alnum(300) + `","signature":"` + alnum(300) + `","encrypted_content":"gAAAA` + alnum(200) + `"`)
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(strings.Contains(s, "<"))
	if err := e.Encode(s); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestRedactorKinds(t *testing.T) {
	text := "sk-" + alnum(48) + " a@example.com +14155552671 4111111111111111 now -----BEGIN PRIVATE KEY-----" + alnum(64) + "-----END PRIVATE KEY-----"
	for kind, want := range map[string]int{Credentials: 1, PrivateKeys: 1, Emails: 2, Phones: 1, Cards: 1} {
		c := must.Get(NewRedactor(Config{Kinds: []string{kind}}))(t)
		got := c.Append(nil, []byte(text))
		must.Equal(t, bytes.Count(got, []byte(mask)), want, "%s: %s", kind, got)
	}
	none, err := NewRedactor(Config{})
	if got := none.Append(nil, []byte(text)); err != nil || string(got) != text {
		t.Errorf("without kinds: %s, %v", got, err)
	}
}

func TestRedactorPatterns(t *testing.T) {
	c := newRedactor(t, `EMP-\d{6}`, `(?i)project falcon`, `n[a-z]+`)
	for in, want := range map[string]string{
		`{"a":"EMP-123456 on Project Falcon","b":123456}`: `{"a":"*** on ***","b":123456}`,
		`{"a":"x\nabc","nnn":null}`:                       `{"a":"x***","***":null}`,
		`EMP-123456 said "EMP-654321" abc`:                `*** said "***" abc`,
	} {
		must.Equal(t, string(c.Append(nil, []byte(in))), want, "%s", in)
	}
	for _, bad := range []Config{
		{Patterns: []string{"ok", "(unclosed"}},
		{Patterns: []string{"a*"}},
		{Patterns: make([]string, MaxPatterns+1)},
		{Patterns: []string{strings.Repeat("a", 2000)}},
		{Kinds: []string{"mails"}},
	} {
		if _, err := NewRedactor(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		} else if len(bad.Patterns) == 2 && !strings.Contains(err.Error(), "redact_patterns[1]: ") {
			t.Error(err)
		}
	}
}

// The literal of a pattern is contained in its matches.
func TestRedactorPatternLiteral(t *testing.T) {
	for _, x := range []struct{ pattern, literal, folded, text string }{
		{`EMP-\d{6}`, "EMP-", "", "EMP-123456"},
		{`\d{3}-(?:EMP|DEP)-x(?:staff)+`, "staff", "", "123-DEP-xstaffstaff"},
		{`(?i)\bproject falcon\b`, "", "project falcon", "PROJECT FalCon"},
		{`(?i)tasks?-`, "", "ta", "TA\u017fk-"},
		{`(?i:acme) Corp(oration)?`, " Corp", "", "aCMe Corp"},
		{`(?i)k\d+`, "", "", "\u212a123"},
		{`a|bcd`, "", "", "a"},
		{`(abc)?x{2,}`, "x", "", "xx"},
		{`(?:abc){0,3}y`, "y", "", "y"},
		{`Größe \d`, "Größe ", "", "Größe 3"},
		{`x\x{FFFD}yz`, "yz", "", "x\xffyz"},
		{`[A-Z]{2}\d{6}`, "", "", "AB123456"},
	} {
		p := newPattern(regexp.MustCompile(x.pattern))
		if string(p.literal) != x.literal || p.folded != x.folded {
			t.Errorf("literal of %s is %q or %q, want %q or %q", x.pattern, p.literal, p.folded, x.literal, x.folded)
		}
		if !p.MatchString(x.text) {
			t.Errorf("%s does not match %q", x.pattern, x.text)
		}
		must.Equal(t, string(newRedactor(t, x.pattern).Append(nil, []byte("<"+x.text+">"))), "<***>", "%s: %q becomes", x.pattern, x.text)
	}
}

func redactorHostile(n int) map[string]string {
	m := hostile(n)
	for _, s := range []string{
		"password:", "PASSWORD=", `password:"a `, `"password":"`, `password='`, "cookie:a", "authorization: a", "+1 ", "4111 ", "1-", "(415) ", "a@b.", "@", "a.", "bearer ", "-----BEGIN PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n", "eyJ.", "sk-a-", "sk-", `\\`, `\"`, "1", "12 ", "8Q~", "://a:", "token=a1", "AKIA", "authorization=", "bearer+", "SG.", "hvs.a", "%20bearer ", `\u0020`, "(415) 555-267", "+49 1", "password=\"\\\"", "pwd='a\\n", "cookie:a=", "api_key:'a1", "https://hooks.slack.com/services/", "1:AA",
	} {
		m[s] = strings.Repeat(s, n/len(s)+1)[:n]
	}
	m["authorization=("] = m["authorization="] + "("
	return m
}

func TestRedactorHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: one goroutine, and slow under the race detector")
	}
	c := newRedactor(t, `a+b`, `\\+x`)
	for name, text := range redactorHostile(1 << 19) {
		start := cpuSeconds(t)
		got := c.Append(nil, []byte(text))
		// A quadratic implementation takes a minute.
		if took := cpuSeconds(t) - start; took > 5 {
			t.Errorf("%q takes %.1f s", name, took)
		}
		if len(got) > 4*len(text) {
			t.Errorf("%q grows to %d bytes", name, len(got))
		}
	}
}

// everywhere returns a Redactor that runs the checks of a byte whatever is around it.
func everywhere(tb testing.TB) *Redactor {
	tb.Helper()
	c, all := newRedactor(tb), ^check(0)
	for b, check := range c.anchors {
		for other := range 256 {
			c.hot[b<<8|other] = uint8(min(check, 1))
			c.before[b][other%64], c.next[0][other], c.next[1][other] = all, all, all
		}
	}
	return c
}

// FuzzRedactor checks that masking is idempotent and keeps JSON valid, and that the bytes around a secret do not hide it.
func FuzzRedactor(f *testing.F) {
	for _, text := range redactorHostile(64) {
		f.Add([]byte(text))
		f.Add([]byte(quote(text)))
	}
	f.Add([]byte(`{"password":"hunter22","card":4111111111111111,"x":["a@example.com","\u003cb@example.com\u003e"],"k":"sk-` + alnum(40) + `"}`))
	f.Add([]byte("Cookie: a=b; c=d\nBearer " + alnum(30) + " +49 30 901820 (415) 555-2671 https://a:b@c"))
	plain, patterns, everywhere := newRedactor(f), newRedactor(f, `[0-9a-f]{4,}x?`, `n.*q`), everywhere(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		once := plain.Append(nil, text)
		if again := plain.Append(nil, once); !bytes.Equal(again, once) {
			t.Errorf("%q\nbecomes %q\n  then %q", text, once, again)
		}
		if got := everywhere.Append(nil, text); !bytes.Equal(got, once) {
			t.Errorf("%q\nbecomes %q\n not    %q", text, once, got)
		}
		if got := plain.Append([]byte("x"), text); !bytes.Equal(text, before) || !bytes.Equal(got[1:], once) {
			t.Errorf("Append changes %q", before)
		}
		if !json.Valid(text) {
			return
		}
		for _, c := range []*Redactor{plain, patterns} {
			if got := c.Append(nil, text); !json.Valid(got) {
				t.Errorf("%s\nbecomes %s", text, got)
			}
		}
	})
}
