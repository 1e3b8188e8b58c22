# Everything for developers. `make help` lists it.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export GOTOOLCHAIN := $(shell .ci/toolchain)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := go tool -modfile=$(CURDIR)/tools/go.mod
MODULES := . tests manifests/image manifests/alerts tools/release
# The platforms of a release.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# The platforms of an image: by default Linux with this machine's architecture.
IMAGE_PLATFORMS ?= linux/$(shell go env GOARCH)
# Packages whose tests run without the race detector: its memory would count towards the limit of their child processes.
# Those of manifests and promotion have only one goroutine, and would take five minutes.
PLAIN := /(confine|reconcile/promotion|render/kustomize|provision/charts|plumbline/manifests)$$
# Tests of time and memory, which the race detector's own use would hide, and the longest tests.
UNRACED := ^(TestManyFetches|TestFetchOfALongHistory|TestWhatDiffersIsFound|TestBombsAtTheCommandLine|TestLessConfinementIsLogged|TestLongTextsAreCheap|TestExplore|TestExploreWords|TestExploreRandomWorlds)$$
# Built like the programs, so that shared code is compiled once. The race detector needs cgo.
PLAIN_TEST := CGO_ENABLED=0 go test -trimpath
PREPARE := cd tests && CGO_ENABLED=0 go run -trimpath ./sandbox/cmd/prepare -ldflags '$(LDFLAGS)'
# The programs of Flux and Argo CD for stories of tier test.
STORY_PEERS := source-controller kustomize-controller argocd
FUZZTIME ?= 10s
OBJECTS ?= 400
MINUTES ?= 30
SEED    ?= 0
IDLE ?= 30s
# How many groups of stories run at a time. A story mostly waits.
LANES ?= $(shell echo $$(($$(nproc) + 1)))
NODES ?= 1000
# NodeClaims that change at once in the benchmark.
CLAIMS ?= 5000
# NodeClaims for plans and what-ifs in the benchmark.
FLEET ?= 10000

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  %-16s %s\n", $$1, $$2}'

.PHONY: system
system: ## Install the system packages that the sandbox needs, or name them
	@.ci/system $(if $(filter 1,$(PLUMBLINE_FULL)),redis-server)

.PHONY: build
build: ## Build bin/plumbline
	@$(PREPARE) plumbline

.PHONY: build-steps
build-steps: ## Build bin/plumbline-steps, which tests can kill at each step
	@$(PREPARE) plumbline-steps

.PHONY: sandbox-binaries
sandbox-binaries: system ## Build the sandbox's binaries into the cache
	@$(PREPARE) programs

.PHONY: sandbox
sandbox: system ## Start a sandbox and stay in the foreground; KUBERNETES=1.34 emulates that version, KARPENTER=1.8.6 also builds that controller
	@$(PREPARE) programs$(addprefix @,$(KUBERNETES)) sandbox $(addprefix karpenter@,$(KARPENTER))
	@bin/sandbox up $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

.PHONY: demo
demo: system ## Run the main use case on a sandbox; KEEP=1 keeps it running
	@$(PREPARE) programs plumbline demo
	@bin/demo

.PHONY: recordings
recordings: system ## Record the demo in docs/recordings: an asciicast, and pictures of some commands
	@$(PREPARE) programs plumbline demo
	@bin/demo --record docs/recordings

.PHONY: test
test: system ## Unit tests with the race detector, the sandbox's tests, the stories
	@$(PREPARE) programs plumbline plumbline-steps $(STORY_PEERS)
	@$(MAKE) --no-print-directory test-unit
	@go test -race -tags steppoints ./internal/steppoint
	@$(PLAIN_TEST) -timeout 2h -run '$(UNRACED)' ./reconcile/source ./reconcile/removal ./cmd/plumbline ./render
	@cd manifests/image && $(PLAIN_TEST) ./...
	@cd manifests/alerts && $(PLAIN_TEST) ./...
	@cd tools/release && $(PLAIN_TEST) ./...
	@cd tests && $(PLAIN_TEST) -count=1 -timeout 3h -p 1 -parallel $(LANES) ./... # -count=1: Go's cache does not see changes outside of their module

.PHONY: test-full
test-full: export PLUMBLINE_FULL = 1
test-full: export PLUMBLINE_DRAWS ?= 0
test-full: test ## make test, stories that are too long for it, other draws for properties, a minute of each fuzz target, and this platform's binary built twice
	@$(MAKE) --no-print-directory fuzz-smoke FUZZTIME=1m
	@$(MAKE) --no-print-directory release-snapshot PLATFORMS="$$(go env GOOS)/$$(go env GOARCH)"

.PHONY: test-unit
test-unit: ## Unit tests only
	@go test -race -skip '$(UNRACED)' $$(go list ./... | grep -vE '$(PLAIN)')
	@$(PLAIN_TEST) $$(go list ./... | grep -E '$(PLAIN)')

.PHONY: lint
lint: ## golangci-lint over all modules
	@for m in $(MODULES); do (cd $$m && $(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yaml ./...); done

.PHONY: format
format: ## gofumpt and gci
	@for m in $(MODULES); do (cd $$m && $(TOOL) golangci-lint fmt --config $(CURDIR)/.golangci.yaml ./...); done

.PHONY: generate
generate: ## Deep copies, CRD, RBAC, chart, and the reference in docs/
	@$(TOOL) controller-gen object paths=./reconcile/api/...
	@$(TOOL) controller-gen crd:maxDescLen=300 paths=./reconcile/api/... output:crd:dir=manifests/crd
	@go generate ./...

.PHONY: verify
verify: generate ## Check that generated code is fresh, and modules are tidy and verified
	@for m in $(MODULES); do (cd $$m && go mod tidy -diff && go mod verify); done
	@git diff --exit-code -- reconcile manifests docs || { echo 'generated files are stale: commit what make generate wrote' >&2; exit 1; }

.PHONY: vulncheck
vulncheck: ## Check for known vulnerabilities; passes with a warning if the database is unreachable
	@.ci/vulncheck

.PHONY: licences
licences: ## Check the licences of all linked modules: tools/release/licences.json lists those allowed
	@.ci/modules $(PLATFORMS) | go tool -modfile=tools/release/go.mod go-licence-detector -includeIndirect -rules tools/release/licences.json -overrides tools/release/overrides.json

.PHONY: image
image: ## Build dist/image.tar without a container engine; PUSH=registry.example.com/plumbline:v1 pushes it, IMAGE_PLATFORMS="linux/amd64 linux/arm64" sets its platforms
	@.ci/image '$(VERSION)' '$(PUSH)' $(IMAGE_PLATFORMS)

.PHONY: release-snapshot
release-snapshot: ## Build the parts of a release that need no network in dist/: archives, bills of materials, chart, krew manifest, checksums; COLD=1 repeats the build without a cache
	@.ci/release snapshot $(PLATFORMS)

.PHONY: release
release: ## Publish a release of a tagged commit: release-snapshot, checked for vulnerabilities, signed with cosign, with images
	@git describe --exact-match --tags HEAD >/dev/null || { echo 'tag the commit first: git tag -s v1.2.3' >&2; exit 1; }
	@command -v cosign >/dev/null || { echo 'cosign signs the checksums: install it from https://docs.sigstore.dev/cosign' >&2; exit 1; }
	@.ci/vulncheck --strict
	@COLD=1 .ci/release publish $(PLATFORMS)

.PHONY: bench
bench: build ## Print the table of ratios; OBJECTS=2000 PEERS=flux,argo IDLE=10m NODES=10000 CURVE=1 SCENES=removal; SCENES=pace measures a rollout
	@.ci/system $(if $(findstring argo,$(PEERS)),redis-server)
	@cd tests && go run ./bench/cmd/bench -objects=$(OBJECTS) -peers='$(PEERS)' -idle=$(IDLE) -nodes=$(NODES) -claims=$(CLAIMS) -fleet=$(FLEET) -curve=$(if $(CURVE),true,false) -scenes='$(SCENES)'

.PHONY: soak
soak: build sandbox-binaries ## Run the daemon with pushes, faults and kills: MINUTES=30, SEED=n repeats a run
	@cd tests && go run ./soak/cmd/soak -minutes $(MINUTES) -seed $(SEED)

.PHONY: fuzz-smoke
fuzz-smoke: ## Run each fuzz target for FUZZTIME
	@for pkg in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v '^./tests/' | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$pkg/*_test.go | sed 's/func //'); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; done; done

.PHONY: clean
clean: ## Remove build results
	@rm -rf bin dist
