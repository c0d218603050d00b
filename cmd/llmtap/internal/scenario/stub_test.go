package scenario

var streaming, thinkingAloud, switching, unlabelled []scenario
