package stories_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// signerKey is a key for signing commits.
type signerKey struct {
	// entry is the key of its public key in a Secret, and public the value.
	entry, public string
	// config is the Git configuration for signing with it.
	config map[string]string
}

// once is when an expired key was created: it was valid for a day.
const once = "20250101T120000!"

// signerCommand creates a key with gpg or ssh-keygen.
func (s *story) signerCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: signer NAME openpgp|expired|ssh")
	}
	if s.signers == nil {
		s.signers = map[string]signerKey{}
	}
	var key signerKey
	var err error
	if args[1] == "ssh" {
		key, err = s.sshSigner(args[0])
	} else {
		key, err = s.gpgSigner(args[0], args[1] == "expired")
	}
	s.signers[args[0]] = key
	return err
}

func (s *story) sshSigner(name string) (signerKey, error) {
	file := filepath.Join(s.dir, name)
	if _, err := s.tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file); err != nil {
		return signerKey{}, err
	}
	public, err := os.ReadFile(file + ".pub")
	return signerKey{entry: name + ".sshpub", public: string(public), config: map[string]string{"gpg.format": "ssh", "user.signingkey": file}}, err
}

// gpgSigner uses its own folder with a short name: gpg's agent has a socket in it.
func (s *story) gpgSigner(name string, expired bool) (signerKey, error) {
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		return signerKey{}, fmt.Errorf("make gpg's folder: %w", err)
	}
	s.t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // it may have exited
		_ = os.RemoveAll(home)
	})
	options := []string{"--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}
	lasts := "0"
	if expired {
		options, lasts = append(options, "--faked-system-time", once), "1d"
	}
	if _, err := s.tool("gpg", append(options, "--quick-generate-key", name+"@example.com", "ed25519", "sign", lasts)...); err != nil {
		return signerKey{}, err
	}
	public, err := s.tool("gpg", append(options, "--armor", "--export")...)
	if err != nil {
		return signerKey{}, err
	}
	program := filepath.Join(home, "sign")
	script := "#!/bin/sh\nexec gpg '" + strings.Join(options, "' '") + "' \"$@\"\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		return signerKey{}, fmt.Errorf("write gpg's script: %w", err)
	}
	return signerKey{entry: name + ".asc", public: public, config: map[string]string{"gpg.format": "openpgp", "gpg.program": program, "user.signingkey": name + "@example.com"}}, nil
}

func (s *story) tool(program string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, program, args...)
	cmd.Env = append(s.repo.Environment(), "PATH="+repository.Path)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// signCommand makes git sign what it creates in the clone from now on, or not.
func (s *story) signCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: sign NAME|none")
	}
	key, known := s.signers[args[0]]
	if !known && args[0] != "none" {
		return fmt.Errorf("there is no signer %q", args[0])
	}
	if _, err := s.repo.Git(s.ctx, "config", "commit.gpgsign", fmt.Sprint(known)); err != nil {
		return err
	}
	for name, value := range key.config {
		if _, err := s.repo.Git(s.ctx, "config", name, value); err != nil {
			return err
		}
	}
	return nil
}

// signersCommand applies a Secret with public keys.
func (s *story) signersCommand(_ *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: signers SECRET NAME…")
	}
	data := map[string]any{}
	for _, name := range args[1:] {
		key, known := s.signers[name]
		if !known {
			return fmt.Errorf("there is no signer %q", name)
		}
		data[key.entry] = key.public
	}
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": args[0], "namespace": daemon.Namespace},
		"stringData": data,
	})
	if err != nil {
		return fmt.Errorf("write the Secret's manifest: %w", err)
	}
	if _, err := s.program(s.ctx, "kubectl", "delete", "secret", args[0], "--ignore-not-found"); err != nil {
		return err
	}
	return s.apply(manifest)
}

// ringKeyCommand creates the key of a cluster of a fleet, and the Secret NAME-key with it.
func (s *story) ringKeyCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: ringkey NAME")
	}
	file := filepath.Join(s.dir, "ring-"+args[0])
	if _, err := s.tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", args[0], "-f", file); err != nil {
		return err
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		return err
	}
	private, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ts.Setenv(strings.ToUpper(args[0])+"_KEY", strings.TrimSpace(string(public)))
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": args[0] + "-key", "namespace": daemon.Namespace},
		"stringData": map[string]any{"identity": string(private)},
	})
	if err != nil {
		return fmt.Errorf("write the Secret's manifest: %w", err)
	}
	return s.apply(manifest)
}
