package webhook

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// repository is where a repository is, as host/path: the same for all of its
// URLs, over https and ssh, with any user and any port. All in lower
// case, as the hosts that we hear from tell no two repositories apart by case.
//
// Two that differ only in their port are taken for one: then a NodeSync too
// many is woken, which costs a fetch.
type repository string

// scpLike is ssh's short form, such as git@github.com:acme/fleet.git.
var scpLike = regexp.MustCompile(`^(?:[^@/:]+@)?([^@/:]+):([^:].*)$`)

// repositoryOf names the repository at a URL; false where that is none.
func repositoryOf(address string) (repository, bool) {
	host, place := "", ""
	if short := scpLike.FindStringSubmatch(address); short != nil && !strings.Contains(address, "://") {
		host, place = short[1], short[2]
	} else {
		parsed, err := url.Parse(address)
		if err != nil {
			return "", false
		}
		host, place = parsed.Hostname(), parsed.Path
	}
	place = strings.Trim(path.Clean("/"+place), "/")
	place = strings.TrimRight(strings.TrimSuffix(strings.ToLower(place), ".git"), "/")
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || place == "" {
		return "", false
	}
	return repository(azureName(host + "/" + place)), true
}
