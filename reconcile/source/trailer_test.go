package source

import "testing"

func TestTrailer(t *testing.T) {
	for message, want := range map[string]string{
		"Raise the AMI\n\nPlumbline-Emergency: CVE-2026-1\nSigned-off-by: A\n": "CVE-2026-1",
		"Raise the AMI\n\nplumbline-emergency:  lower case \n":                 "lower case",
		"Plumbline-Emergency: a subject is none":                               "",
		"Raise\n\nPlumbline-Emergency: quoted in the text\n\nthe end\n":        "",
		"Raise the AMI\n": "",
	} {
		if got := trailer(message, "Plumbline-Emergency"); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	if trailer("a\n\nb: c", "") != "" {
		t.Error("no trailer was asked for")
	}
}
