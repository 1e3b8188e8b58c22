package stories_test

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// unsaidCommand is `unsaid SECRET…`: nothing that leaves the daemon contains one of them, in any encoding.
func (s *story) unsaidCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: unsaid SECRET…")
	}
	places, err := s.everythingSaid(ts)
	if err != nil {
		return err
	}
	var found []error
	for place, text := range places {
		if len(text) == 0 {
			found = append(found, fmt.Errorf("%s: it is empty, so that nothing was looked for", place))
		}
		for i, secret := range args {
			for _, form := range formsOf(secret) {
				if at := strings.Index(text, form); at >= 0 {
					found = append(found, fmt.Errorf("%s: secret %d as %q: …%s…", place, i+1, form, text[max(0, at-80):min(len(text), at+len(form)+80)]))
				}
			}
		}
	}
	return errors.Join(found...)
}

// formsOf returns the encodings of a secret: plain, quoted, as JSON, in a URL, its common part with the base64 of a
// longer text that contains it at any offset, and its hashes.
func formsOf(secret string) []string {
	quoted := strconv.Quote(secret)
	text, _ := json.Marshal(secret)
	forms := []string{secret, quoted[1 : len(quoted)-1], string(text[1 : len(text)-1]), url.QueryEscape(secret), url.PathEscape(secret)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset, skip := range []int{0, 2, 3} {
			code := encoding.EncodeToString(append(make([]byte, offset), secret...))
			forms = append(forms, code[skip:len(code)-2])
		}
	}
	for _, hashed := range []hash.Hash{md5.New(), sha1.New(), sha256.New(), sha512.New()} {
		_, _ = hashed.Write([]byte(secret)) // a hash accepts everything
		sum := hashed.Sum(nil)
		forms = append(forms, hex.EncodeToString(sum), base64.RawStdEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum))
	}
	return forms
}

// everythingSaid returns all that leaves the daemon, by where it is found, except what Helm stores and creates with the
// values.
func (s *story) everythingSaid(ts *testscript.TestScript) (map[string]string, error) {
	places := map[string]string{}
	log, err := os.ReadFile(s.daemon.LogFile())
	if err != nil {
		return nil, err
	}
	places["the log"] = string(log)
	for _, command := range [][]string{
		{"kubectl", "get", "nodesyncs,events,configmaps,leases", "-A", "-o", "yaml"},
		{"kubectl", "get", "nodepools,ec2nodeclasses", "-o", "yaml"},
		{"plumbline", "get", "-A", "-o", "json"},
		{"plumbline", "status", s.syncs[0]},
		{"plumbline", "status", s.syncs[0], "-o", "json"},
		{"plumbline", "plan", s.syncs[0]},
	} {
		// A plan may exit with a code other than 0 and still print everything.
		places[strings.Join(command, " ")], _ = s.program(s.ctx, command[0], command[1:]...)
	}
	commits, err := s.repo.Git(s.ctx, "rev-list", "HEAD")
	if err != nil {
		return nil, err
	}
	for _, commit := range strings.Fields(commits) {
		statuses, err := s.repo.Statuses(s.ctx, commit)
		if err != nil {
			return nil, err
		}
		places["commit statuses"] += fmt.Sprintf("%+v\n", statuses)
	}
	for place, address := range map[string]string{
		"metrics": ts.Getenv("METRICS") + "/metrics", "the command line": ts.Getenv("PROFILES") + "/debug/pprof/cmdline",
		"goroutines": ts.Getenv("PROFILES") + "/debug/pprof/goroutine?debug=2", "the heap": ts.Getenv("PROFILES") + "/debug/pprof/heap",
		"allocations": ts.Getenv("PROFILES") + "/debug/pprof/allocs?debug=1",
	} {
		if places[place], err = s.page("http://" + address); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	}
	return places, nil
}

// page reads what the daemon serves, uncompressed.
func (s *story) page(address string) (string, error) {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return "", errors.Join(err, errors.New(answer.Status))
	}
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return string(text), nil
	}
	unzip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	text, err = io.ReadAll(unzip)
	return string(text), err
}
