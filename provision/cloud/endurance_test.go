package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// throttled throttles every call to EC2 and STS.
func throttled(string) (status int, code, message string) {
	return http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."
}

// TestThrottlingIsToldInTime checks that AWS's response is reported within the timeout of a query, including the SDK's
// own retries.
func TestThrottlingIsToldInTime(t *testing.T) {
	account := &account{fail: throttled}
	began := time.Now()
	_, err := connect(t, account, Options{Timeout: 7 * time.Second}).Instances(t.Context(), Query{Cluster: "demo", Pools: []string{"batch"}})
	var typed *ThrottledError
	if !errors.As(err, &typed) {
		t.Errorf("got %T: %v", err, err)
	}
	if took := time.Since(began); took > 7*time.Second {
		t.Errorf("it took %s", took)
	}
	if account.questions() != 3 {
		t.Errorf("it was tried %d times, want 3", account.questions())
	}
}

// TestRefusedCredentialsAreFetchedAnew checks that credentials that AWS refuses are replaced although they have not
// expired, and that the next query succeeds.
func TestRefusedCredentialsAreFetchedAnew(t *testing.T) {
	var handedOut atomic.Int32
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		key := "OLD"
		if handedOut.Add(1) > 1 {
			key = "NEW"
		}
		fmt.Fprintf(w, `{"AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`, key, time.Now().Add(6*time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(agent.Close)
	account := &account{}
	aws := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=OLD/") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse><Error><Code>ExpiredToken</Code><Message>The security token included in the request is expired</Message></Error></ErrorResponse>`)
			return
		}
		account.ServeHTTP(w, r)
	})
	connect(t, aws, Options{})
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL) // as EKS Pod Identity provides them
	client, err := New(t.Context(), Options{Region: "eu-west-1", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	var refused *CredentialsError
	if _, err := client.Identity(t.Context()); !errors.As(err, &refused) {
		t.Fatalf("with the old ones: got %T: %v", err, err)
	}
	if _, err := client.Identity(t.Context()); err != nil {
		t.Errorf("with the new ones: %v", err)
	}
	if _, err := client.Identity(t.Context()); err != nil || handedOut.Load() != 2 {
		t.Errorf("good ones were fetched anew: %d times, %v", handedOut.Load(), err)
	}
}
