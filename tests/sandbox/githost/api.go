package githost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// call sends one request to Gitea's API as a user and decodes the response into out, unless that is nil.
func (h *Host) call(ctx context.Context, as User, method, path string, in, out any) error {
	what := fmt.Sprintf("%s %s/api/v1%s as %s", method, h.URL, path, as.Name)
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s: encode: %w", what, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, h.URL+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	request.Header.Set("Content-Type", "application/json")
	// Creating tokens requires a password.
	if as.Token != "" {
		request.Header.Set("Authorization", "token "+as.Token)
	} else {
		request.SetBasicAuth(as.Name, as.Password)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s: read the answer: %w", what, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s: %s: %s", what, answer.Status, bytes.TrimSpace(said))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(said, out); err != nil {
		return fmt.Errorf("%s: read the answer: %w", what, err)
	}
	return nil
}
