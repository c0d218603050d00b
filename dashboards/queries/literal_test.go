package queries

import "testing"

func TestLiteral(t *testing.T) {
	params := map[string]string{"why": `it's a \ "quote" {step:UInt32}`, "step": "60", "since": "2026-11-23 09:00:00", "list": "['a']", "bad": "1; DROP"}
	f := func(sql, want string) {
		t.Helper()
		if got := Literal(sql, params); got != want {
			t.Errorf("Literal(%s) = %s, want %s", sql, got, want)
		}
	}
	f("a = {why:String} LIMIT {step:UInt32}", `a = 'it\'s a \\ "quote" {step:UInt32}' LIMIT 60`)
	f("{since:DateTime64(9, 'UTC')}", "toDateTime64('2026-11-23 09:00:00', 9, 'UTC')")
	f("{list:Array(String)} {bad:UInt32}", "CAST('[\\'a\\']' AS Array(String)) CAST('1; DROP' AS UInt32)")
	f("{unknown:String}", "{unknown:String}")
}
