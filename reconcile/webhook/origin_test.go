package webhook

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func networks(t testing.TB, all ...string) []net.IPNet {
	t.Helper()
	var parsed []net.IPNet
	for _, text := range all {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, *network)
	}
	return parsed
}

func TestOrigin(t *testing.T) {
	cases := map[string]struct {
		trusted   []string
		peer      string
		forwarded []string
		want      string
	}{
		"nobody is trusted":               {nil, "10.0.0.7:4000", []string{"192.0.2.1"}, "10.0.0.7"},
		"no proxy":                        {[]string{"10.0.0.0/8"}, "192.0.2.1:4000", nil, "192.0.2.1"},
		"a stranger forges":               {[]string{"10.0.0.0/8"}, "192.0.2.1:4000", []string{"198.51.100.1"}, "192.0.2.1"},
		"behind the proxy":                {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"192.0.2.1"}, "192.0.2.1"},
		"a forger behind the proxy":       {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"198.51.100.1, 192.0.2.1"}, "192.0.2.1"},
		"it forges a trusted one":         {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"198.51.100.1, 10.9.9.9, 192.0.2.1"}, "192.0.2.1"},
		"it forges a line of its own":     {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"198.51.100.1", "192.0.2.1"}, "192.0.2.1"},
		"two proxies":                     {[]string{"10.0.0.0/8", "172.16.0.0/12"}, "10.0.0.7:4000", []string{"192.0.2.1, 172.16.0.4"}, "192.0.2.1"},
		"two proxies, the nearer trusted": {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"192.0.2.1, 172.16.0.4"}, "172.16.0.4"},
		"from within":                     {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"10.0.0.9"}, "10.0.0.9"},
		"a proxy that names nobody":       {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", nil, "10.0.0.7"},
		"a proxy that names nonsense":     {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"192.0.2.1, unknown"}, "10.0.0.7"},
		"with a port":                     {[]string{"10.0.0.0/8"}, "10.0.0.7:4000", []string{"192.0.2.1:5000"}, "192.0.2.1"},
		"IPv6":                            {[]string{"fd00::/8"}, "[fd00::1]:4000", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 with a port":                {[]string{"fd00::/8"}, "[fd00::1]:4000", []string{"[2001:db8::1]:5000"}, "2001:db8::1"},
		"IPv4 in IPv6":                    {[]string{"10.0.0.0/8"}, "[::ffff:10.0.0.7]:4000", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		"no peer":                         {[]string{"0.0.0.0/0"}, "@", []string{"192.0.2.1"}, "invalid IP"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, Path, nil)
			r.RemoteAddr = c.peer
			for _, line := range c.forwarded {
				r.Header.Add("X-Forwarded-For", line)
			}
			if got := (origins{networks(t, c.trusted...)}).of(r); got.String() != c.want {
				t.Errorf("from %s, want %s", got, c.want)
			}
		})
	}
}
