package webhook

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// azureDevOps is Azure DevOps, whose service hooks have no header of their own: they are known by
// the user and the password that they are given. The user may be any.
func azureDevOps() sender {
	return sender{
		name: "azuredevops", known: "Authorization", pushes: []string{"git.push"},
		pulls: []string{"git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged"},
		named: func(body []byte) string {
			var told azureEvent
			if json.Unmarshal(body, &told) != nil {
				return ""
			}
			return told.Type
		},
		proof: "Authorization", proven: isPassword, read: readAzureEvent,
	}
}

// azureEvent is what we read of an event.
type azureEvent struct {
	Type     string `json:"eventType"`
	Resource struct {
		Updates []struct {
			Name string `json:"name"`
		} `json:"refUpdates"`
		Repository struct {
			Remote string `json:"remoteUrl"`
			SSH    string `json:"sshUrl"`
			Web    string `json:"webUrl"`
		} `json:"repository"`
	} `json:"resource"`
}

func readAzureEvent(body []byte) (push, error) {
	var told azureEvent
	if err := json.Unmarshal(body, &told); err != nil {
		return push{}, unreadable(err)
	}
	p := push{}
	for _, update := range told.Resource.Updates {
		p.refs = append(p.refs, update.Name)
	}
	for _, address := range []string{told.Resource.Repository.Remote, told.Resource.Repository.SSH, told.Resource.Repository.Web} {
		p.add(address)
	}
	return p.checked()
}

// isPassword says whether a proof has the token as the password.
// https://datatracker.ietf.org/doc/html/rfc7617
func isPassword(proof string, body, token []byte) bool {
	_, password, is := (&http.Request{Header: http.Header{"Authorization": {proof}}}).BasicAuth()
	return is && isToken(password, body, token)
}

// The URLs of a repository on Azure DevOps Services: over https by its two names, over ssh by both.
// https://learn.microsoft.com/azure/devops/release-notes/2018/sep-10-azure-devops-launch
var (
	azureSSH = regexp.MustCompile(`^(?:ssh\.dev\.azure\.com|vs-ssh\.visualstudio\.com)/v3/([^/]+)/([^/]+)/([^/]+)$`)
	azureOld = regexp.MustCompile(`^([^./]+)\.visualstudio\.com/(?:defaultcollection/)?(?:([^/]+)/)?_git/([^/]+)$`)
	azureNew = regexp.MustCompile(`^dev\.azure\.com/([^/]+)/(?:([^/]+)/)?_git/([^/]+)$`)
)

// azureName is the one name of a repository there, in lower case; any other is as it was. A repository
// that is called as its project is stands without it.
func azureName(name string) string {
	for _, form := range []*regexp.Regexp{azureSSH, azureOld, azureNew} {
		found := form.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		organization, project, repository := found[1], found[2], found[3]
		if form == azureSSH { // the short form of ssh is escaped still
			project, repository = unescaped(project), unescaped(repository)
		}
		if project == "" {
			project = repository
		}
		return strings.Join([]string{"dev.azure.com", organization, project, "_git", repository}, "/")
	}
	return name
}

func unescaped(segment string) string {
	if plain, err := url.PathUnescape(segment); err == nil {
		return strings.ToLower(plain)
	}
	return segment
}
