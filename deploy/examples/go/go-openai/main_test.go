package main

import (
	"testing"

	"github.com/llmtap/llmtap/deploy/examples/go/internal/model"
)

func TestAsk(t *testing.T) { model.Ask(t, "OPENAI", "/v1", ask) }
