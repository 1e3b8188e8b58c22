module github.com/plumbline-dev/plumbline/tools/release

go 1.26.0

tool go.elastic.co/go-licence-detector

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/spdx/tools-golang v0.5.7
	go.elastic.co/go-licence-detector v0.11.1
)

require (
	github.com/anchore/go-struct-converter v0.1.0 // indirect
	github.com/cyphar/filepath-securejoin v0.7.0 // indirect
	github.com/google/licenseclassifier v0.0.0-20260218193730-3cfbab2d0e0d // indirect
	github.com/sergi/go-diff v1.4.0 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
