package report

import "testing"

func TestGitHubAPI(t *testing.T) {
	cases := map[string]string{
		"https://github.com/acme/fleet":            "https://api.github.com",
		"https://www.github.com/acme/fleet.git":    "https://api.github.com",
		"https://acme.ghe.com/acme/fleet":          "https://api.acme.ghe.com",
		"https://git.example.com:8443/acme/fleet/": "https://git.example.com:8443/api/v3",
	}
	for url, want := range cases {
		r, err := parse(url, lastTwo)
		if err != nil {
			t.Fatal(err)
		}
		if got := githubAPI(r); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
