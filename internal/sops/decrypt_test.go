package sops

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFileOfSops: what sops has encrypted is decrypted, with values of all types, and its code matches.
func TestFileOfSops(t *testing.T) {
	keys, err := KeysOf(map[string][]byte{"sops.asc": read(t, "key.asc")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decrypt(t.Context(), read(t, "example.yaml"), keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, isFloat := got["number"].(float64); !isFloat || got["myapp1"] != "t00m4nys3cr3tzupdated" || !cmp.Equal(got["somebooleans"], []any{true, false}) || got[Key] != nil {
		t.Errorf("got %v", got)
	}
	db := got["app2"].(map[string]any)["db"]
	if diff := cmp.Diff(map[string]any{"user": "eve", "password": "c4r1b0u"}, db); diff != "" {
		t.Error(diff)
	}
}

// TestFilesOfTheProgram: what the real sops writes (testdata/encrypt.sh) has the values of plain.yaml and plain.json.
func TestFilesOfTheProgram(t *testing.T) {
	files, err := os.ReadDir("testdata/real")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	both := map[string][]byte{"age.agekey": read(t, "age.agekey"), "gpg.asc": read(t, "gpg.asc")}
	for _, file := range files {
		t.Run(file.Name(), func(t *testing.T) {
			var want any
			if err := yaml.Unmarshal(read(t, "plain"+filepath.Ext(file.Name())), &want); err != nil {
				t.Fatal(err)
			}
			keys, err := KeysOf(both)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decrypt(t.Context(), read(t, "real/"+file.Name()), keys)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
				t.Errorf("-plain +decrypted:\n%s", diff)
			}
		})
	}
}

// asJSON is what becomes of values: times are texts, and a float64 may be whole.
func asJSON(t *testing.T, values any) string {
	t.Helper()
	text, err := json.MarshalIndent(values, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sealFor encrypts as sops does: {a: {secret: hidden, open_unencrypted: shown}, list: [1, x]} for an age identity.
func sealFor(t *testing.T, recipient age.Recipient, onlyMAC bool) (text string) {
	t.Helper()
	key := make([]byte, dataKeySize)
	_, _ = rand.Read(key)
	enc := func(value, kind, bound string) string {
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		iv := make([]byte, 32)
		_, _ = rand.Read(iv)
		gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
		if err != nil {
			t.Fatal(err)
		}
		out := gcm.Seal(nil, iv, []byte(value), []byte(bound))
		b64 := base64.StdEncoding.EncodeToString
		return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", b64(out[:len(out)-16]), b64(iv), b64(out[len(out)-16:]), kind)
	}
	mac := sha512.New()
	authenticated := "hiddenshown1x"
	if onlyMAC {
		mac.Write(onlyEncrypted)
		authenticated = "hidden1x"
	}
	mac.Write([]byte(authenticated))
	var data bytes.Buffer
	armored := armor.NewWriter(&data)
	out, err := age.Encrypt(armored, recipient)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = out.Write(key)
	if err := errors.Join(out.Close(), armored.Close()); err != nil {
		t.Fatal(err)
	}
	const modified = "2026-12-01T12:00:00Z"
	meta, _ := json.Marshal(map[string]any{
		"age":          []any{map[string]string{"recipient": "age1test", "enc": data.String()}},
		"lastmodified": modified, "mac": enc(fmt.Sprintf("%X", mac.Sum(nil)), "str", modified),
		"unencrypted_suffix": "_unencrypted", "mac_only_encrypted": onlyMAC, "version": "3.13.3",
	})
	return fmt.Sprintf("a:\n  secret: %s\n  open_unencrypted: shown\nlist:\n  - %s\n  - %s\nnone: null\nsops: %s\n",
		enc("hidden", "str", "a:secret:"), enc("1", "int", "list:"), enc("x", "str", "list:"), meta)
}

func identity(t *testing.T) (*age.X25519Identity, Keys) {
	t.Helper()
	made, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := KeysOf(map[string][]byte{"age.agekey": []byte("# created\n" + made.String() + "\n"), "other": []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	return made, keys
}

// TestAge: with the key, the values; with another one, an error that names the recipient and no value.
func TestAge(t *testing.T) {
	made, keys := identity(t)
	_, others := identity(t)
	want := map[string]any{"a": map[string]any{"secret": "hidden", "open_unencrypted": "shown"}, "list": []any{1, "x"}, "none": nil}
	for _, onlyMAC := range []bool{false, true} {
		text := sealFor(t, made.Recipient(), onlyMAC)
		got, err := Decrypt(t.Context(), []byte(text), keys)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		var refused *KeyError
		for name, keys := range map[string]Keys{"another key": others, "no key": {}} {
			if _, err := Decrypt(t.Context(), []byte(text), keys); !errors.As(err, &refused) || !strings.Contains(err.Error(), "it is encrypted for age1test") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestChangedWithoutSops: no value can be changed, moved, added or removed.
func TestChangedWithoutSops(t *testing.T) {
	made, keys := identity(t)
	text := sealFor(t, made.Recipient(), false)
	lines := strings.Split(text, "\n")
	for name, changed := range map[string]string{
		"an open value":        strings.ReplaceAll(text, "shown", "other"),
		"moved to another key": strings.ReplaceAll(text, "  secret:", "  token:"),
		"two values swapped":   strings.Join(append([]string{lines[0], lines[1], lines[2], lines[3], lines[5], lines[4]}, lines[6:]...), "\n"),
		"one added":            strings.ReplaceAll(text, "none: null", "none: added"),
		"one removed":          strings.ReplaceAll(text, "  open_unencrypted: shown\n", ""),
		"not encrypted":        strings.ReplaceAll(text, lines[1], "  secret: plain"),
		"a later time":         strings.ReplaceAll(text, "2026-12-01T12", "2026-12-01T13"),
		"no code":              strings.ReplaceAll(text, `"mac":`, `"mic":`),
		"key groups":           strings.ReplaceAll(text, `"age":[`, `"key_groups":[{}],"age":[`),
		"no field sops":        strings.ReplaceAll(text, "\nsops:", "\nsaps:"),
		"a key twice":          text + "none: null\n",
		"an alias":             "x: &x 1\ny: *x\n" + text,
		"a list":               "[1]",
		// the code does not cover comments: a right guess of the value, put before it, must not be told from a wrong one
		"a value as a comment": strings.Replace(text, lines[1], "  guess_unencrypted: hidden\n"+strings.Replace(lines[1], "type:str", "type:comment", 1), 1),
		"text after a value":   strings.Replace(text, lines[1], lines[1]+"x", 1),
		"two rules":            strings.Replace(text, `"unencrypted_suffix":`, `"encrypted_suffix":"x","unencrypted_suffix":`, 1),
		"a large expression":   strings.Replace(text, `"unencrypted_suffix":"_unencrypted"`, `"encrypted_regex":"`+strings.Repeat("(a?){1000}", 10)+`"`, 1),
		"a long expression":    strings.Replace(text, `"unencrypted_suffix":"_unencrypted"`, `"encrypted_regex":"`+strings.Repeat("a", 300)+`"`, 1),
		"many keys":            strings.Replace(text, `"age":[`, `"kms":[{}`+strings.Repeat(",{}", 30)+`],"age":[`, 1),
	} {
		if changed == text {
			t.Errorf("%s changes nothing", name)
		}
		got, err := Decrypt(t.Context(), []byte(changed), keys)
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// TestKMS: the ARN, the ciphertext and the context are passed on, and its errors are reported.
func TestKMS(t *testing.T) {
	made, keys := identity(t)
	text := sealFor(t, made.Recipient(), false)
	from := strings.Index(text, `"age":[`)
	enc := text[from : from+strings.Index(text[from:], "]")+1]
	kms := `"kms":[{"arn":"arn:aws:kms:eu-west-1:123456789012:key/a","enc":"` + base64.StdEncoding.EncodeToString([]byte("sealed")) + `","context":{"team":"a"}}]`
	var parsed struct{ Age []struct{ Enc string } }
	if err := json.Unmarshal([]byte("{"+enc+"}"), &parsed); err != nil {
		t.Fatal(err)
	}
	want, err := keys.byAge(parsed.Age[0].Enc)
	if err != nil {
		t.Fatal(err)
	}
	byKMS := strings.ReplaceAll(text, enc, kms)
	ask := Keys{KMS: func(_ context.Context, arn string, ciphertext []byte, bound map[string]string) ([]byte, error) {
		if arn != "arn:aws:kms:eu-west-1:123456789012:key/a" || string(ciphertext) != "sealed" || bound["team"] != "a" {
			t.Errorf("asked for %s %s %v", arn, ciphertext, bound)
		}
		return want, nil
	}}
	if got, err := Decrypt(t.Context(), []byte(byKMS), ask); err != nil || got["a"] == nil {
		t.Errorf("got %v, %v", got, err)
	}
	denied := Keys{KMS: func(context.Context, string, []byte, map[string]string) ([]byte, error) {
		return nil, errors.New("AccessDenied")
	}}
	if _, err := Decrypt(t.Context(), []byte(byKMS), denied); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("got %v", err)
	}
	vault := strings.ReplaceAll(text, enc, `"hc_vault":[{}]`)
	if _, err := Decrypt(t.Context(), []byte(vault), keys); err == nil || !strings.Contains(err.Error(), "HashiCorp Vault (not supported)") {
		t.Errorf("got %v", err)
	}
}

// TestKeysOfNames: what is no key is named, and not printed.
func TestKeysOfNames(t *testing.T) {
	for name, data := range map[string]string{"a.agekey": "AGE-SECRET-KEY-1BROKEN", "b.asc": "nothing"} {
		if _, err := KeysOf(map[string][]byte{name: []byte(data)}); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if keys, err := KeysOf(map[string][]byte{"x": []byte("y")}); err != nil || !keys.None() {
		t.Errorf("got %v, %v", keys, err)
	}
}

// TestPlain: nothing that is encrypted is left, nor the metadata.
func TestPlain(t *testing.T) {
	const enc = "ENC[AES256_GCM,data:a,iv:b,tag:c,type:str]"
	got := Plain(map[string]any{
		"sops": map[string]any{}, "a": map[string]any{"b": enc, "c": 1}, "list": []any{1, map[string]any{"d": map[string]any{"e": enc}}}, "open": []any{"x"}, "d": enc,
	})
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"c": 1}, "open": []any{"x"}}, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecrypt(f *testing.F) {
	f.Add([]byte("a: b\nsops: {mac: x, age: [{recipient: a, enc: b}]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := Decrypt(t.Context(), text, Keys{}); err == nil {
			t.Errorf("decrypted without a key: %v", got)
		}
	})
}
