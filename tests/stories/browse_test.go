package stories_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/net/html"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// browseCommand checks the daemon's page.
func (s *story) browseCommand(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "address":
		ports, err := process.FreePorts(1)
		if err != nil {
			return err
		}
		ts.Setenv("PAGE", fmt.Sprintf("localhost:%d", ports[0]))
		return nil
	case len(args) == 2 && args[0] == "same":
		return s.eventually(ts, time.Minute, func() error { return s.samePage(ts, args[1]) })
	case len(args) == 2 && args[0] == "pictures":
		return s.pictures(ts, args[1])
	case len(args) == 3 && args[1] == "~":
		pattern, err := regexp.Compile("(?s)" + args[2])
		if err != nil {
			return err
		}
		return s.eventually(ts, time.Minute, func() error {
			text, err := s.pageText(ts, args[0])
			if err == nil && !pattern.MatchString(text) {
				err = fmt.Errorf("%s says\n%s", args[0], text)
			}
			return err
		})
	}
	return errors.New("usage: browse address | browse PATH ~ REGEXP | browse same NODESYNC | browse pictures PATH")
}

// eventually retries until the check succeeds.
func (s *story) eventually(ts *testscript.TestScript, patience time.Duration, is func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := is()
		if err == nil || time.Now().After(deadline) || s.ctx.Err() != nil {
			return err
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pageText returns the visible text of a page.
func (s *story) pageText(ts *testscript.TestScript, path string) (string, error) {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+ts.Getenv("PAGE")+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	root, err := html.Parse(io.LimitReader(response.Body, 4<<20))
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s, %w", path, response.Status, err)
	}
	var text strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			text.WriteString(n.Data)
		}
	}
	return text.String(), nil
}

// samePage checks that the page of a NodeSync shows what `plumbline status` prints.
func (s *story) samePage(ts *testscript.TestScript, name string) error {
	text, err := s.pageText(ts, "/nodesyncs/"+name)
	if err != nil {
		return err
	}
	command := exec.CommandContext(s.ctx, daemon.Binary(s.root), "status", name)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig())
	out, err := command.Output()
	if len(out) == 0 {
		return fmt.Errorf("plumbline status: %w", err) // the exit code tells the NodeSync's state
	}
	first, rest, _ := strings.Cut(string(out), "\n")
	state, _, _ := strings.Cut(strings.TrimPrefix(first, "nodesync/"+name+": "), ", for ")
	facts, found := []string{state}, regexp.MustCompile(`(?m)^(?:commit|waiting|next|karpenter|charts|cloud|launches|rollout|nodes|fields) +(.+)$`).FindAllStringSubmatch(rest, -1)
	for _, fact := range found {
		words, _, _ := strings.Cut(fact[1], ", for ")
		facts = append(facts, strings.TrimSpace(words))
	}
	for _, object := range regexp.MustCompile(`(?m)^(NodePool/\S+|EC2NodeClass/\S+) +(\w+)`).FindAllStringSubmatch(rest, -1) {
		facts = append(facts, object[1]+object[2]) // cells are adjacent
	}
	if len(facts) < 4 {
		return fmt.Errorf("plumbline status says little:\n%s", out)
	}
	for _, fact := range facts {
		if !strings.Contains(text, fact) {
			return fmt.Errorf("the page does not say %q, but\n%s", fact, text)
		}
	}
	return nil
}

// pictures takes screenshots of a page with Chromium, if installed, in light, dark and narrow, into the folder
// $PLUMBLINE_PICTURES.
func (s *story) pictures(ts *testscript.TestScript, path string) error {
	browser, err := exec.LookPath("chromium")
	if errors.Is(err, exec.ErrNotFound) {
		ts.Logf("not drawn: there is no chromium here")
		return nil
	}
	if err != nil {
		return err
	}
	folder := os.Getenv("PLUMBLINE_PICTURES")
	if folder == "" {
		folder = ts.MkAbs("pictures")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	base := cmp.Or(strings.Trim(strings.ReplaceAll(path, "/", "-"), "-"), "overview")
	for kind, flags := range map[string][]string{
		"light":  {"--window-size=1280,1000"},
		"dark":   {"--window-size=1280,1000", "--blink-settings=preferredColorScheme=0"},
		"narrow": {"--window-size=500,1000"},
	} {
		file := filepath.Join(folder, base+"-"+kind+".png")
		flags = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + ts.MkAbs("chromium"), "--screenshot=" + file}, flags...)
		out, err := exec.CommandContext(s.ctx, browser, append(flags, "http://"+ts.Getenv("PAGE")+path)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("draw %s: %w\n%s", path, err, out)
		}
		if strings.Contains(string(out), "Content Security Policy") {
			return fmt.Errorf("the browser refuses a part of %s:\n%s", path, out)
		}
		picture, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("%s of %s: nothing is drawn: %w", kind, path, err)
		}
		if picture.Size() < 10_000 {
			return fmt.Errorf("%s of %s: a picture of %d bytes shows nothing", kind, path, picture.Size())
		}
	}
	return nil
}
