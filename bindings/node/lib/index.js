"use strict";

const { toError, ...errors } = require("./errors.js");
const { AllGuard, Guard } = require("./guard.js");
const { Election } = require("./election.js");
const { Handle } = require("./handle.js");
const { All, Mutex, Pool, RwLock, Semaphore } = require("./kinds.js");
const { Locks, connect } = require("./locks.js");

module.exports = { connect, All, AllGuard, Election, Guard, Handle, Locks, Mutex, Pool, RwLock, Semaphore, ...errors };
