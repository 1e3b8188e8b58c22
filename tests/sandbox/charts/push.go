package charts

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
)

// push adds an artifact to a registry's store with the registry's own protocol, without the network and injected
// faults.
func push(ctx context.Context, store http.Handler, repository, tag string, a *artifact) error {
	for _, blob := range [][]byte{a.Config, a.Content} {
		upload := "/v2/" + repository + "/blobs/uploads/?digest=" + digest(blob)
		if err := send(ctx, store, http.MethodPost, upload, "application/octet-stream", blob, http.StatusCreated); err != nil {
			return err
		}
	}

	return send(ctx, store, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, manifestType, a.Manifest, http.StatusCreated)
}

func send(ctx context.Context, store http.Handler, method, target, mediaType string, body []byte, want int) error {
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, target, err)
	}

	request.Header.Set("Content-Type", mediaType)

	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, request)

	if answer.Code != want {
		return fmt.Errorf("%s %s: status %d: %s", method, target, answer.Code, answer.Body)
	}

	return nil
}
