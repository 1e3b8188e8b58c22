package bench

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// webhookToken signs the Git host's notifications to the daemon.
const webhookToken = "bench"

// webhookSecret contains the token where the daemon reads it.
const webhookSecret = `apiVersion: v1
kind: Secret
metadata: {name: plumbline-webhook, namespace: ` + daemon.Namespace + `}
stringData: {token: ` + webhookToken + `}
`

// notify notifies the daemon of a push, like Gitea.
func (p *plumbline) notify(ctx context.Context, commit string) (err error) {
	body, err := json.Marshal(map[string]any{
		"ref": "refs/heads/" + branch, "after": commit, "repository": map[string]any{"clone_url": p.host.url},
	})
	if err != nil {
		return fmt.Errorf("write a webhook: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.hooks+"/hook", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send a webhook: %w", err)
	}
	signature := hmac.New(sha256.New, []byte(webhookToken))
	signature.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Gitea-Event", "push")
	request.Header.Set("X-Gitea-Signature", fmt.Sprintf("%x", signature.Sum(nil)))
	answer, err := p.direct.Do(request)
	if err != nil {
		return fmt.Errorf("send a webhook: %w", err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	var said struct {
		Woken   int
		Message string
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		return fmt.Errorf("read the answer to a webhook (%s): %w", answer.Status, err)
	}
	if said.Woken != len(p.syncs) {
		return fmt.Errorf("send a webhook: %s, %d NodeSyncs were woken, want %d: %s", answer.Status, said.Woken, len(p.syncs), said.Message)
	}
	return nil
}
