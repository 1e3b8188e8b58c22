package webhook

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// payloadOf returns an event from a host's documentation, shortened.
func payloadOf(t testing.TB, file string) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestParsePush(t *testing.T) {
	of := func(repository repository, refs ...string) push {
		return push{repositories: repositories(repository), refs: refs}
	}
	server := push{repositories: repositories("bitbucket.example.com/flt/fleet", "bitbucket.example.com/scm/flt/fleet", "bitbucket.example.com/projects/flt/repos/fleet"), refs: []string{"refs/heads/main"}}
	cases := map[string]push{
		"github/push.json":          of("github.com/codertocat/hello-world", "refs/heads/main"),
		"github/tag.json":           of("github.com/codertocat/hello-world", "refs/tags/v1.2.0"),
		"gitlab/push.json":          of("example.com/mike/diaspora", "refs/heads/main"),
		"gitlab/tag.json":           of("example.com/jsmith/example", "refs/tags/v1.0.0"),
		"gitea/push.json":           of("localhost/gitea/webhooks", "refs/heads/develop"),
		"forgejo/push.json":         of("forge.example.org/team/webhooks", "refs/heads/develop"),
		"bitbucket/push.json":       {repositories: repositories("bitbucket.org/acme/fleet", "api.bitbucket.org/2.0/repositories/acme/fleet"), refs: []string{"refs/heads/main", "refs/heads/dev", "refs/tags/v1.2.0"}},
		"bitbucketserver/push.json": server,
		"bitbucketserver/tag.json":  {anywhere: []string{"/flt/fleet", "/projects/flt/repos/fleet"}, refs: []string{"refs/tags/v1.2.0"}},
		"azuredevops/push.json":     of("dev.azure.com/acme/infra eu/_git/fleet", "refs/heads/main"),
	}
	for file, want := range cases {
		t.Run(file, func(t *testing.T) {
			host, _, _ := strings.Cut(file, "/")
			got, err := senderNamed(t, host).readPush(payloadOf(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(push{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func repositories(all ...repository) []repository { return all }

func senderNamed(t testing.TB, name string) sender {
	t.Helper()
	all := senders()
	i := slices.IndexFunc(all, func(s sender) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("nobody is called %s", name)
	}
	return all[i]
}

// TestARepositoryByAllItsNames: on a host that sends its URLs, and on one that sends none.
func TestARepositoryByAllItsNames(t *testing.T) {
	for file, urls := range map[string][2][]string{
		"bitbucketserver/push.json": {
			{"https://bitbucket.example.com/scm/FLT/fleet.git", "ssh://git@bitbucket.example.com:7999/flt/fleet.git", "https://bitbucket.example.com/projects/FLT/repos/fleet"},
			{"https://other.example.com/scm/flt/fleet.git", "https://bitbucket.example.com/scm/flt/fleet2.git"},
		},
		"bitbucketserver/tag.json": {
			{"https://bitbucket.example.com/scm/FLT/fleet.git", "ssh://git@other.example.com:7999/flt/fleet.git", "https://bitbucket.example.com/below/projects/FLT/repos/fleet"},
			{"https://bitbucket.example.com/scm/flt/fleet2.git", "https://bitbucket.example.com/scm/xflt/fleet.git"},
		},
		"azuredevops/push.json": {
			{"https://dev.azure.com/acme/infra%20eu/_git/fleet", "git@ssh.dev.azure.com:v3/acme/Infra%20eu/fleet", "https://acme.visualstudio.com/DefaultCollection/infra%20eu/_git/fleet"},
			{"https://dev.azure.com/acme/_git/fleet", "https://dev.azure.com/acme/infra/_git/fleet", "git@ssh.dev.azure.com:v3/other/infra%20eu/fleet"},
		},
	} {
		host, _, _ := strings.Cut(file, "/")
		got, err := senderNamed(t, host).readPush(payloadOf(t, file))
		if err != nil {
			t.Fatal(err)
		}
		for i, all := range urls {
			for _, url := range all {
				if is := got.names(url); is != (i == 0) {
					t.Errorf("%s names %s: %t", file, url, is)
				}
			}
		}
	}
}

func TestAHostWithANameForEachProtocol(t *testing.T) {
	got, err := senderNamed(t, "github").readPush([]byte(`{"ref": "refs/heads/main", "repository": {"clone_url": "https://git.example.com/a/b.git", "ssh_url": "git@ssh.example.com:a/b.git"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"https://git.example.com/a/b", "ssh://git@ssh.example.com/a/b.git"} {
		if !got.concerns(&v1alpha1.GitSource{URL: url}) {
			t.Errorf("does not concern %s", url)
		}
	}
}

func TestNoPush(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":           ``,
		"no JSON":           `payload=%7B%7D`,
		"another kind":      `[]`,
		"a number as a URL": `{"ref": "refs/heads/main", "repository": {"clone_url": 7}}`,
		"no reference":      `{"repository": {"clone_url": "https://github.com/a/b.git"}}`,
		"no repository":     `{"ref": "refs/heads/main"}`,
		"no URL":            `{"ref": "refs/heads/main", "repository": {"clone_url": "fleet"}}`,
		"no change":         `{"push": {"changes": [{"new": null, "old": null}]}, "repository": {"links": {"html": {"href": "https://bitbucket.org/a/b"}}}}`,
		"links of a kind":   `{"changes": [{"ref": {"id": "refs/heads/main"}}], "repository": {"links": {"html": 7}}}`,
		"only a project":    `{"changes": [{"ref": {"id": "refs/heads/main"}}], "repository": {"project": {"key": "a"}}}`,
		"no update":         `{"eventType": "git.push", "resource": {"repository": {"remoteUrl": "https://dev.azure.com/a/b/_git/c"}}}`,
		"minimal":           `{"eventType": "git.push", "resource": {"refUpdates": [{"name": "refs/heads/main"}], "repository": {"id": "x"}}}`,
		"cut":               `{"ref": "refs/heads/main", "repository": {"clone_url": "https://github.com/a/b.git"`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range senders() {
				if got, err := from.readPush([]byte(body)); err == nil {
					t.Errorf("%s: read as %+v", from.name, got)
				}
			}
		})
	}
}

func TestFollows(t *testing.T) {
	const branch, other, tag, tag2, pull = "refs/heads/main", "refs/heads/dev", "refs/tags/v1.0.0", "refs/tags/v2.0.0", "refs/pull/1/head"
	all := []string{branch, other, tag, tag2, pull}
	cases := map[string]struct {
		ref  v1alpha1.GitRef
		woke []string
	}{
		"nothing said":         {v1alpha1.GitRef{}, []string{branch}},
		"a branch":             {v1alpha1.GitRef{Branch: "dev"}, []string{other}},
		"a tag":                {v1alpha1.GitRef{Tag: "v1.0.0"}, []string{tag}},
		"a tag over a branch":  {v1alpha1.GitRef{Tag: "v1.0.0", Branch: "main"}, []string{tag}},
		"a range":              {v1alpha1.GitRef{SemVer: "1.x"}, []string{tag, tag2}},
		"a range over a tag":   {v1alpha1.GitRef{SemVer: "1.x", Tag: "v1.0.0"}, []string{tag, tag2}},
		"a name":               {v1alpha1.GitRef{Name: pull}, []string{pull}},
		"a name over a range":  {v1alpha1.GitRef{Name: branch, SemVer: "1.x"}, []string{branch}},
		"HEAD":                 {v1alpha1.GitRef{Name: "HEAD"}, []string{branch, other}},
		"a commit":             {v1alpha1.GitRef{Commit: "59b20b8d5c6ff8d09518216e87bae0a2b5f4a6a2"}, nil},
		"a commit on a branch": {v1alpha1.GitRef{Commit: "59b20b8d5c6ff8d09518216e87bae0a2b5f4a6a2", Branch: "main"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var woke []string
			for _, pushed := range all {
				if follows(c.ref, pushed) {
					woke = append(woke, pushed)
				}
			}
			if diff := cmp.Diff(c.woke, woke); diff != "" {
				t.Error(diff)
			}
		})
	}
}

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

func TestRepositoryOf(t *testing.T) {
	cases := map[string]struct {
		urls []string
		want repository
	}{
		"one repository": {[]string{
			"https://github.com/Acme/fleet.git",
			"https://github.com/acme/fleet",
			"https://github.com/acme/fleet/",
			"http://token@GitHub.com:443/acme/fleet.git",
			"https://user:password@github.com/acme/fleet.git",
			"https://github.com./acme//fleet",
			"ssh://git@github.com/acme/fleet.git",
			"ssh://git@github.com:22/acme/fleet",
			"git@github.com:acme/fleet.git",
			"github.com:/acme/fleet.git",
			"git+ssh://git@github.com/acme/fleet.git",
		}, "github.com/acme/fleet"},
		"below a folder": {[]string{
			"https://example.com/git/group/sub/fleet.git",
			"ssh://git@example.com:2222/git/group/sub/fleet.git",
		}, "example.com/git/group/sub/fleet"},
		"azure devops": {[]string{
			"https://dev.azure.com/acme/infra%20eu/_git/Fleet",
			"https://acme@dev.azure.com/acme/infra%20eu/_git/fleet",
			"git@ssh.dev.azure.com:v3/acme/infra%20eu/fleet",
			"ssh://git@ssh.dev.azure.com/v3/acme/infra%20eu/fleet",
			"acme@vs-ssh.visualstudio.com:v3/acme/infra%20eu/fleet",
			"https://acme.visualstudio.com/infra%20eu/_git/fleet",
			"https://acme.visualstudio.com/DefaultCollection/infra%20eu/_git/fleet",
		}, "dev.azure.com/acme/infra eu/_git/fleet"},
		"azure devops, named as its project": {[]string{
			"https://dev.azure.com/acme/_git/fleet", "https://dev.azure.com/acme/fleet/_git/fleet", "git@ssh.dev.azure.com:v3/acme/fleet/fleet", "https://acme.visualstudio.com/_git/fleet",
		}, "dev.azure.com/acme/fleet/_git/fleet"},
		"azure devops server": {[]string{"https://tfs.example.com/tfs/DefaultCollection/infra/_git/fleet"}, "tfs.example.com/tfs/defaultcollection/infra/_git/fleet"},
		"an escaped path":     {[]string{"https://example.com/a%20b/c.git"}, "example.com/a b/c"},
		"an IPv6 address":     {[]string{"http://[::1]:3000/acme/fleet.git", "ssh://git@[::1]:22/acme/fleet.git"}, "::1/acme/fleet"},
		"no repository": {[]string{
			"", "fleet", "/srv/git/fleet.git", "https://", "https://github.com", "https://github.com/", "://", "git@github.com:", "https://github.com/.git", "%zz://a/b",
		}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, address := range c.urls {
				if got, ok := repositoryOf(address); got != c.want || ok != (c.want != "") {
					t.Errorf("%q: %q, %t; want %q", address, got, ok, c.want)
				}
			}
		})
	}
}

func TestOtherRepositories(t *testing.T) {
	mine, _ := repositoryOf("https://github.com/acme/fleet.git")
	for _, other := range []string{
		"https://github.com/acme/fleet2.git",
		"https://github.com/acme2/fleet.git",
		"https://github.example.com/acme/fleet.git",
		"https://github.com/fleet.git",
		"https://github.com/acme/fleet.git/wiki",
		"git@gitlab.com:acme/fleet.git",
	} {
		if got, _ := repositoryOf(other); got == mine {
			t.Errorf("%s is taken for %s", other, mine)
		}
	}
}
