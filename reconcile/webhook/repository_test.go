package webhook

import "testing"

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
