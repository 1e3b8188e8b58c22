package report_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

const (
	token             = "t0ken-of-the-host"
	installationToken = "ghs_installation-t0ken"
	commit            = "c0ffee0000000000000000000000000000000000"
)

var status = report.Status{
	Commit: commit, Context: "plumbline/prod/nodes", State: report.Failure,
	Description: "Held: pools a, b", TargetURL: "https://example.com/x",
}

// dialect describes one kind of host, according to its documentation.
type dialect struct {
	provider, repository string
	secret               map[string]string
	// url is where a status of the commit is posted, without the scheme.
	url string
	// proof is the header that authenticates the request; of a signature only the name.
	proof [2]string
	// states are pending, success and failure.
	states [3]string
	// body is the whole body, with the state as $state.
	body map[string]any
	// key is the part of a body that identifies the status, and longest its maximum length.
	key     func(body map[string]any) string
	longest int
	// code and answer are the response to an accepted status.
	code   int
	answer string
	// refusal is its JSON error response, with the message as $said.
	refusal string
}

func (d dialect) poster(t *testing.T, more map[string]string) report.Poster {
	t.Helper()
	secret := map[string][]byte{}
	for _, values := range []map[string]string{d.secret, more} {
		for key, value := range values {
			secret[key] = []byte(value + "\n")
		}
	}
	p, err := (&report.Hosts{Now: time.Now}).Host(d.provider, d.repository, secret)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// takes responds as the host does to an accepted status.
func (d dialect) takes(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(d.code)
	if d.code != http.StatusNoContent {
		_, _ = fmt.Fprint(w, d.answer)
	}
}

func field(name string) func(map[string]any) string {
	return func(body map[string]any) string { return fmt.Sprint(body[name]) }
}

// like is the body of GitHub and Gitea; GitLab and Bitbucket name the fields differently.
func like(context, description, target string) map[string]any {
	return map[string]any{"state": "$state", context: status.Context, description: status.Description, target: status.TargetURL}
}

func build() map[string]any {
	body := like("key", "description", "url")
	body["name"] = status.Context
	return body
}

func basicAuth(credentials string) [2]string {
	return [2]string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))}
}

// privateKey is that of the GitHub App.
var privateKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func appSecret() map[string]string {
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(privateKey())})
	return map[string]string{"githubAppID": "12", "githubAppInstallationID": "7", "githubAppPrivateKey": string(text)}
}

func dialects() map[string]dialect {
	byToken := map[string]string{"token": token}
	githubRefusal := `{"message": "$said", "documentation_url": "https://docs.github.com/rest", "status": "400"}`
	plain := [3]string{"pending", "success", "failure"}
	builds := [3]string{"INPROGRESS", "SUCCESSFUL", "FAILED"}
	all := map[string]dialect{
		"github": {
			provider: "github", repository: "http://u:p@github.com/acme/fleet.git", secret: byToken,
			url: "api.github.com/repos/acme/fleet/statuses/" + commit, proof: [2]string{"Authorization", "Bearer " + token}, states: plain,
			body: like("context", "description", "target_url"), key: field("context"), longest: 255,
			code: http.StatusCreated, answer: `{"id": 1, "state": "success", "context": "plumbline/prod/nodes"}`, refusal: githubRefusal,
		},
		"gitlab": {
			provider: "gitlab", repository: "http://gitlab.com/acme/infra/eu/fleet.git", secret: byToken,
			url: "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/statuses/" + commit, proof: [2]string{"Private-Token", token},
			states: [3]string{"running", "success", "failed"}, body: like("name", "description", "target_url"), key: field("name"), longest: 255,
			code: http.StatusCreated, answer: `{"id": 93, "status": "success", "name": "plumbline/prod/nodes"}`, refusal: `{"message": "$said"}`,
		},
		"gitea": {
			provider: "gitea", repository: "http://git.example.com:3000/acme/fleet/", secret: byToken,
			url: "git.example.com:3000/api/v1/repos/acme/fleet/statuses/" + commit, proof: [2]string{"Authorization", "token " + token}, states: plain,
			body: like("context", "description", "target_url"), key: field("context"), longest: 255,
			code: http.StatusCreated, answer: `{"id": 1, "status": "success"}`, refusal: `{"message": "$said", "url": "https://git.example.com/api/swagger"}`,
		},
		"bitbucket": {
			provider: "bitbucket", repository: "http://bitbucket.org/acme/fleet.git", secret: byToken,
			url:   "api.bitbucket.org/2.0/repositories/acme/fleet/commit/" + commit + "/statuses/build",
			proof: [2]string{"Authorization", "Bearer " + token}, states: builds, body: build(), key: field("key"), longest: 40,
			code: http.StatusCreated, answer: `{"type": "build", "key": "plumbline/prod/nodes", "state": "SUCCESSFUL"}`,
			refusal: `{"type": "error", "error": {"message": "$said", "fields": {"key": ["$said"]}}}`,
		},
		"bitbucket server": {
			provider: "bitbucketserver", repository: "http://bitbucket.example.com/scm/FLT/fleet.git", secret: byToken,
			url:   "bitbucket.example.com/rest/api/latest/projects/FLT/repos/fleet/commits/" + commit + "/builds",
			proof: [2]string{"Authorization", "Bearer " + token}, states: builds, body: build(), key: field("key"), longest: 255,
			code: http.StatusNoContent, refusal: `{"errors": [{"context": null, "message": "$said", "exceptionName": "com.atlassian.bitbucket.AuthorisationException"}]}`,
		},
		"azure devops": {
			provider: "azuredevops", repository: "http://acme@dev.azure.com/acme/infra%20eu/_git/fleet", secret: byToken,
			url:   "dev.azure.com/acme/infra%20eu/_apis/git/repositories/fleet/commits/" + commit + "/statuses?api-version=6.0",
			proof: basicAuth(":" + token), states: [3]string{"pending", "succeeded", "failed"},
			body: map[string]any{
				"state": "$state", "description": status.Description, "targetUrl": status.TargetURL,
				"context": map[string]any{"genre": "plumbline", "name": "prod/nodes"},
			},
			key: func(body map[string]any) string {
				context, _ := body["context"].(map[string]any)
				return fmt.Sprint(context["genre"], "/", context["name"])
			}, longest: 255,
			code: http.StatusOK, answer: `{"id": 1, "state": "succeeded", "context": {"name": "prod/nodes", "genre": "plumbline"}}`,
			refusal: `{"$id": "1", "innerException": null, "message": "$said", "typeKey": "GitCommitDoesNotExistException", "errorCode": 0, "eventId": 3000}`,
		},
		"generic": {
			provider: "generic", repository: "http://hooks.example.com/statuses?repository=fleet", secret: byToken,
			url: "hooks.example.com/statuses?repository=fleet", proof: [2]string{"X-Signature"}, states: plain,
			body: func() map[string]any {
				body := like("context", "description", "targetURL")
				body["commit"] = commit
				return body
			}(), key: field("context"), longest: 1000, code: http.StatusOK, refusal: `{"error": "$said"}`,
		},
	}
	app := all["github"]
	app.secret, app.proof[1] = appSecret(), "Bearer "+installationToken
	all["github app"] = app
	forgejo := all["gitea"]
	forgejo.provider = "forgejo"
	all["forgejo"] = forgejo
	for _, name := range []string{"bitbucket", "bitbucket server"} {
		user := all[name]
		user.secret, user.proof = map[string]string{"username": "me@example.com", "password": token}, basicAuth("me@example.com:"+token)
		all[name+", a user"] = user
	}
	return all
}

// eachDialect runs a test for every kind of host.
func eachDialect(t *testing.T, test func(*testing.T, dialect)) {
	t.Helper()
	for name, d := range dialects() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { test(t, d) })
	}
}
